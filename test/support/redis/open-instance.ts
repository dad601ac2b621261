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
  /** What becomes of settlements that close records: they are done, they or their replies are lost, or they arrive later. */
  closes: 'done' | 'lost' | 'unheard' | 'delayed' = 'done'
  readonly #link: ClockedLink
  readonly #shared: SharedCounters

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
    this.#shared = shared
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

  /** Sends again what was not settled, or perhaps not. */
  sendUnsent(): Promise<void> {
    return this.#shared.sendUnsent()
  }

  *#open(): Generator<OpenReservation> {
    for (const { counters, amount, used, taken, holder } of this.requests) {
      const part = { charges: chargesOf(amount - used, counters), taken, kept: used }
      yield { holder, taken, isMoney: false, parts: used < amount ? [part] : [] }
    }
  }

  #run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    const run = (): Promise<unknown> => this.#link.run(script, keys, args)
    const fate = args[2] === 'report' && this.isDelaying ? 'delayed' : args[2] === 'close' ? this.closes : 'done'
    if (fate === 'done') return run()
    const failed = (): Promise<never> => Promise.reject(new LinkError('unknown', 'timeout', 'no answer'))
    if (fate === 'delayed') this.delayed.push(run)
    return fate === 'unheard' ? run().then(failed) : failed()
  }
}

function chargesOf(cost: number, counters: readonly FleetCounter[]): Charges {
  const charges = new Charges()
  for (const counter of counters) charges.add(counter, cost)
  return charges
}
