import type { ChargeResults, Charges, Counter, Taken } from '../../../src/store/charges.ts'
import type { CounterLocator } from '../../../src/store/counter-locator.ts'
import type { CounterSpec, CounterStore, OnWarning, Outcome, Purpose, StoreStats } from '../../../src/store/counter-store.ts'
import { FleetStore } from '../../../src/store/redis/fleet-store.ts'
import type { Script, ScriptArgument } from '../../../src/store/redis/link/call.ts'
import type { RedisLink } from '../../../src/store/redis/link/redis-link.ts'
import { type CounterScripts, counterScripts } from '../../../src/store/redis/scripts.ts'
import { SharedCounters } from '../../../src/store/redis/shared-counters.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'

/** Instead of the server's clock: the last two arguments say what time it is, and nothing expires by any other. */
export const CLOCK_OF_A_TEST = `
local now, wall = tonumber(ARGV[#ARGV - 1]), tonumber(ARGV[#ARGV])
local server = redis
local redis = {
  call = function(name, key, ...)
    if name == 'SET' then return server.call('SET', key, (...)) end
    if name == 'PEXPIRE' then return 1 end
    return server.call(name, key, ...)
  end,
}
`

/** The scripts that `ClockedLink` can tell the time. */
export function clockedScripts(): CounterScripts {
  return counterScripts(CLOCK_OF_A_TEST)
}

/** Tells the script what time it is. */
export class ClockedLink {
  nowMs = 0
  wallMs = 0
  readonly #link: RedisLink

  constructor(link: RedisLink) {
    this.#link = link
  }

  groupOf(key: string): number {
    return this.#link.groupOf(key)
  }

  isUsable(group: number): boolean {
    return this.#link.isUsable(group)
  }

  run(script: Script, keys: readonly string[], args: readonly ScriptArgument[], aheadMs = 0): Promise<unknown> {
    return this.#link.run(script, keys, [...args, String(this.nowMs), String(this.wallMs + aheadMs)])
  }
}

/** A store in Redis for suites that say what time it is with every call. */
export class ClockedFleetStore implements CounterStore {
  readonly #link: ClockedLink
  readonly #store: FleetStore

  constructor(link: RedisLink, prefix: string) {
    this.#link = new ClockedLink(link)
    const shared = new SharedCounters(this.#link, clockedScripts(), { prefix, maxSlackMs: 0 }, { onUnknownOutcome() {} })
    const local = newEmbeddedStore(256 * 1024)
    const clock = { nowMs: () => this.#link.nowMs, wallMs: () => this.#link.wallMs }
    this.#store = new FleetStore({ shared, local, failureMode: 'closed', clock, listener: { onDecided() {} } })
  }

  open(spec: CounterSpec): Counter {
    return this.#store.open(spec)
  }

  takeAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number, purpose?: Purpose): Outcome | Promise<Outcome> {
    this.#setTime(nowMs, wallMs)
    return this.#store.takeAll(charges, results, nowMs, wallMs, purpose)
  }

  checkAll(charges: Charges, results: ChargeResults, nowMs: number, wallMs: number): Outcome | Promise<Outcome> {
    this.#setTime(nowMs, wallMs)
    return this.#store.checkAll(charges, results, nowMs, wallMs)
  }

  settleAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number, onWarning?: OnWarning): void | Promise<void> {
    this.#setTime(nowMs, wallMs)
    return this.#store.settleAll(charges, { ...taken, from: 'shared' }, nowMs, wallMs, onWarning)
  }

  renewAll(charges: Charges, taken: Taken, nowMs: number, wallMs: number): Promise<Taken> {
    this.#setTime(nowMs, wallMs)
    return this.#store.renewAll(charges, { ...taken, from: taken.from === 'local' ? 'shared' : taken.from }, nowMs)
  }

  locatorsOf(charges: Charges, taken: Taken): readonly CounterLocator[] {
    return this.#store.locatorsOf(charges, { ...taken, from: 'shared' })
  }

  settleLocated(charges: Charges, taker: string | undefined, taken: Taken, nowMs: number, wallMs: number): Promise<boolean> {
    this.#setTime(nowMs, wallMs)
    return this.#store.settleLocated(charges, taker, { ...taken, from: 'shared' }, nowMs, wallMs)
  }

  renewLocated(charges: Charges, taker: string | undefined, taken: Taken, nowMs: number, wallMs: number): Promise<Taken> {
    this.#setTime(nowMs, wallMs)
    return this.#store.renewLocated(charges, taker, { ...taken, from: taken.from === 'local' ? 'shared' : taken.from }, nowMs)
  }

  resetAll(charges: Charges, nowMs: number, wallMs: number): void | Promise<void> {
    this.#setTime(nowMs, wallMs)
    return this.#store.resetAll(charges, nowMs, wallMs)
  }

  stats(): StoreStats {
    return this.#store.stats()
  }

  #setTime(nowMs: number, wallMs: number): void {
    this.#link.nowMs = nowMs
    this.#link.wallMs = wallMs
  }
}
