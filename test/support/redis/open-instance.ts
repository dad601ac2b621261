import { ChargeResults, Charges, type OpenRecord, type OpenReservation, type Taken } from '../../../src/store/charges.ts'
import type { FleetCounter } from '../../../src/store/redis/fleet-counter.ts'
import { FleetStore } from '../../../src/store/redis/fleet-store.ts'
import { LinkError, type Script, type ScriptArgument } from '../../../src/store/redis/link/call.ts'
import { OpenRecords } from '../../../src/store/redis/open-records.ts'
import { SharedCounters } from '../../../src/store/redis/shared-counters.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { type ClockedLink, clockedScripts } from './clocked-link.ts'

/** A request in flight. `used` is what it has used so far. */
export interface OpenRequest {
  readonly counters: readonly FleetCounter[]
  readonly amount: number
  readonly taken: Taken
  readonly holder: { open?: OpenRecord | undefined }
  used: number
}

/** One thread of an instance that reports what its requests have reserved, on a Redis whose clock is a number. */
export class OpenInstance {
  readonly store: FleetStore
  readonly records: OpenRecords
  readonly requests = new Set<OpenRequest>()
  readonly owner: string
  /** Reports that have not reached Redis yet; the instance believes that they may have. */
  readonly delayed: (() => Promise<unknown>)[] = []
  isDelaying = false
  readonly #link: ClockedLink

  constructor(link: ClockedLink, prefix: string, owner: string, groupOf = (_key: string): number => 0) {
    this.#link = link
    this.owner = owner
    const counterLink = {
      groupOf,
      isUsable: () => true,
      run: (script: Script, keys: readonly string[], args: readonly ScriptArgument[]) => this.#run(script, keys, args),
    }
    const scripts = clockedScripts()
    const shared = new SharedCounters(counterLink, scripts, { prefix, maxSlackMs: 0 }, { onUnknownOutcome() {} })
    const clock = { nowMs: () => link.nowMs, wallMs: () => link.wallMs }
    this.store = new FleetStore({ shared, local: newEmbeddedStore(256 * 1024), failureMode: 'closed', clock, listener: { onDecided() {} } })
    const source = { hasUnsettled: true, openReservations: () => this.#open() }
    this.records = new OpenRecords({ link: counterLink, scripts, prefix, owner, clock, source })
  }

  async reserve(amount: number, ...counters: readonly FleetCounter[]): Promise<OpenRequest | undefined> {
    const results = new ChargeResults()
    const isTaken = await this.store.takeAll(chargesOf(amount, counters), results, this.#link.nowMs, this.#link.wallMs)
    if (isTaken !== true) return undefined
    const { wallMs, momentMs } = results
    const request: OpenRequest = { counters, amount, taken: { wallMs, momentMs, from: 'shared' }, holder: {}, used: 0 }
    this.requests.add(request)
    return request
  }

  async settle(request: OpenRequest): Promise<void> {
    this.requests.delete(request)
    const { counters, amount, used, taken, holder } = request
    const charges = chargesOf(amount - used, counters)
    charges.open = holder.open
    if (holder.open !== undefined) holder.open.isClosed = true
    await this.store.settleAll(charges, taken, this.#link.nowMs, this.#link.wallMs)
  }

  *#open(): Generator<OpenReservation> {
    for (const { counters, amount, used, taken, holder } of this.requests) {
      const part = { charges: chargesOf(amount - used, counters), taken, kept: used }
      yield { holder, taken, isMoney: false, parts: used < amount ? [part] : [] }
    }
  }

  #run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    const run = (): Promise<unknown> => this.#link.run(script, keys, args)
    if (!this.isDelaying || args[2] !== 'report') return run()
    this.delayed.push(run)
    return Promise.reject(new LinkError('unknown', 'timeout', 'no answer'))
  }
}

function chargesOf(cost: number, counters: readonly FleetCounter[]): Charges {
  const charges = new Charges()
  for (const counter of counters) charges.add(counter, cost)
  return charges
}
