import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import type { BucketLimit } from '../../limiter/limit.ts'
import type { ChargeResults, Charges, Taken } from '../charges.ts'
import type { OnWarning } from '../counter-store.ts'
import { CounterKeys, type CounterQuery, queryRows, type ReturnRow, renewalRows, settlementRows } from './counter-rows.ts'
import type { LinkError } from './link/call.ts'
import { type CounterLink, groupsOf, type QueryCall, returnsOf, ScriptCalls, takenMs } from './script-calls.ts'
import { type ScriptReply, warnedPercent } from './script-format.ts'
import type { CounterScripts } from './scripts.ts'
import { isOutcomeUnknown, type SettlementListener, Settlements } from './settlements.ts'

export interface SharedSettings {
  /** Prefix of all keys. */
  readonly prefix: string
  /**
   * Returns the moment of the last change of overrides that is in force here at `nowMs`, on the monotonic clock; by default, none ever is.
   */
  readonly overridesKnownAt?: (nowMs: number) => number
  /** The longest that a reply may take. */
  readonly maxSlackMs: number
}

/** A reply may seem to be this far from our own time only because it took that long. */
const MAX_CLOCK_ERROR_MS = 1000

/** The counters in Redis. One script takes, checks, settles, renews or resets the rows of a call, all of them or none. */
export class SharedCounters {
  readonly #link: CounterLink
  readonly #calls: ScriptCalls
  readonly #keys: CounterKeys
  readonly #settlements: Settlements
  readonly #maxSlackMs: number
  readonly #overridesKnownAt: (nowMs: number) => number
  readonly #listener: SettlementListener
  /** How far the clock of Redis is ahead of ours; 0 where they agree. */
  #aheadMs = 0

  constructor(link: CounterLink, scripts: CounterScripts, settings: SharedSettings, listener: SettlementListener) {
    const { prefix, maxSlackMs, overridesKnownAt = () => 0 } = settings
    this.#link = link
    this.#overridesKnownAt = overridesKnownAt
    this.#calls = new ScriptCalls(link, scripts)
    this.#keys = new CounterKeys(prefix)
    this.#settlements = new Settlements(link, this.#calls, listener)
    this.#maxSlackMs = maxSlackMs
    this.#listener = listener
  }

  /** An own count may lag behind by the refill of this time, because it is charged only when the reply has arrived. */
  get slackMs(): number {
    return Math.min(2 * this.#calls.slowestMs, this.#maxSlackMs)
  }

  keyOf(charges: Charges, row: number): string {
    return this.#keys.keyOf(charges, row)
  }

  /**
   * Returns the time by the clock of Redis, close enough to name the right window in nearly all queries. It also applies to decisions that
   * are made here while Redis is unreachable: by a clock that differs, what was taken before would be in other windows.
   */
  redisWallMs(wallMs: number): number {
    return wallMs + this.#aheadMs
  }

  /** Returns the calls that a decision takes, or undefined if the circuit of a node that they need is open. */
  callsFor(action: 'take' | 'check', query: CounterQuery): QueryCall[] | undefined {
    const calls = this.#callsFor(action, query)
    return calls.every(({ number }) => this.#link.isUsable(number)) ? calls : undefined
  }

  /**
   * Takes or checks, and fills `results`. Returns whether all rows fit, or 'other_window' if nothing was taken because Redis is in a window
   * that the query did not name; `redisWallMs` is correct from then on. Rejects with a LinkError if a call failed; what other nodes took is
   * given back.
   */
  ask(calls: readonly QueryCall[], charges: Charges, results: ChargeResults): Promise<boolean | 'other_window'> {
    // Most decisions take one call.
    const asked = calls.length === 1 ? this.#run(calls[0]!) : this.#runAll(calls)
    return asked.then((failure) => this.#finish(calls, failure, charges, results))
  }

  #finish(calls: readonly QueryCall[], failure: LinkError | undefined, charges: Charges, results: ChargeResults): boolean | 'other_window' {
    results.momentMs = 0
    const isOtherWindow = calls.some(({ reply }) => reply?.fits === 'other_window')
    const fits = failure === undefined && calls.every(({ reply }) => reply!.fits === true)
    for (const call of calls) {
      const { reply, action } = call
      if (reply === undefined || reply.fits === 'other_window') continue
      const isGivenBack = !fits && reply.fits && action === 'take'
      // All of it is given back, whatever refill has replaced: if each reject cost that much, a flood of rejects would use up other
      // callers' limits.
      if (isGivenBack) void this.#giveBack(returnsOf(call, false))
      if (!isOtherWindow) write(call, charges, results, isGivenBack)
    }
    if (failure !== undefined) throw failure
    return isOtherWindow ? 'other_window' : fits
  }

  /** Gives back what `ask` took and leased, less what refill may have replaced since. Never rejects. */
  async giveBack(calls: readonly QueryCall[]): Promise<void> {
    await Promise.all(calls.map((call) => this.#giveBack(returnsOf(call, true))))
  }

  /**
   * Resolves when the settlement is done or kept for later, and to false if its outcome is unknown or Redis refused it too often. Never
   * rejects.
   */
  settle(charges: Charges, taken: Taken, nowMs: number, onWarning?: OnWarning): Promise<boolean> {
    const action = taken.isTakerUnknown === true ? 'refund' : 'settle'
    return this.#settlements.settle(action, settlementRows(this.#keys, charges, taken, nowMs, onWarning))
  }

  /** Returns the digest that names the counter of a row in Redis, without the prefix. */
  digestOf(charges: Charges, row: number): string {
    return this.#keys.digestOf(charges, row)
  }

  /**
   * Moves holds to the current slice. Never rejects. Returns when they were taken now, `taken` itself if a counter was reset since,
   * 'not_sent' if nothing was done, and undefined if the outcome is unknown.
   */
  async renew(charges: Charges, taken: Taken, nowMs: number): Promise<Taken | 'not_sent' | undefined> {
    const groups = groupsOf(this.#link, renewalRows(this.#keys, charges, taken, nowMs))
    if (!groups.every(({ number }) => this.#link.isUsable(number))) return 'not_sent'
    try {
      return renewed(taken, await Promise.all(groups.map(({ rows }) => this.#calls.renew(rows))))
    } catch (error) {
      if (!isOutcomeUnknown(error)) return 'not_sent'
      this.#listener.onUnknownOutcome('renewal')
      return undefined
    }
  }

  /** Sends settlements that could not be sent before. */
  async sendUnsent(): Promise<void> {
    await this.#settlements.sendUnsent()
  }

  /** Gives leased tokens back, less what refill may have replaced since. Never rejects. Returns whether it was done. */
  async giveBackLease(key: string, limit: BucketLimit, tokens: number, leasedMs: number): Promise<boolean> {
    if (!this.#link.isUsable(this.#link.groupOf(key))) return false
    try {
      await this.#calls.giveBack('give_back', [
        { key, limit, ageMs: 0, tokens, takenWallMs: leasedMs, momentMs: leasedMs, isLessRefill: true },
      ])
      return true
    } catch (error) {
      if (isOutcomeUnknown(error)) this.#listener.onUnknownOutcome('lease')
      return false
    }
  }

  /** Resets counters, even if circuits are open. Never rejects: returns all calls, and the first LinkError. */
  async reset(query: CounterQuery): Promise<{ calls: readonly QueryCall[]; failure: LinkError | undefined }> {
    const calls = this.#callsFor('reset', query)
    return { calls, failure: await this.#runAll(calls) }
  }

  #callsFor(action: QueryCall['action'], query: CounterQuery): QueryCall[] {
    const { wallMs: askedWallMs, nowMs } = query
    const knownMs = this.#overridesKnownAt(nowMs)
    const rows = queryRows(this.#keys, query, this.slackMs, this.redisWallMs(askedWallMs))
    return groupsOf(this.#link, rows).map(({ number, rows }) => ({ number, rows, action, askedWallMs, knownMs, reply: undefined }))
  }

  /** Runs all calls. Returns the first error, if any. */
  async #runAll(calls: readonly QueryCall[]): Promise<LinkError | undefined> {
    const failures = await Promise.all(calls.map((call) => this.#run(call)))
    return failures.find((failure) => failure !== undefined)
  }

  /** Runs a call, and sets its reply. Never rejects: returns its error, if any. */
  #run(call: QueryCall): Promise<LinkError | undefined> {
    const sentMs = performance.now()
    return this.#calls.send(call).then(
      (reply) => this.#tryRead(call, reply, sentMs),
      (error: LinkError) => this.#fail(call, error),
    )
  }

  #tryRead(call: QueryCall, received: unknown, sentMs: number): LinkError | undefined {
    try {
      const reply = this.#calls.read(call, received, sentMs)
      call.reply = reply
      this.#noteClock(reply.wallMs - call.askedWallMs)
      return undefined
    } catch (error) {
      return this.#fail(call, error as LinkError)
    }
  }

  #fail({ action, rows }: QueryCall, error: LinkError): LinkError {
    if (action === 'take' && isOutcomeUnknown(error))
      this.#listener.onUnknownOutcome(rows.every(({ cost }) => cost === 0) ? 'lease' : 'take')
    return error
  }

  #noteClock(aheadMs: number): void {
    if (Math.abs(aheadMs - this.#aheadMs) > MAX_CLOCK_ERROR_MS) this.#aheadMs = aheadMs
  }

  /** Gives tokens back; a counter that was created or reset after the take gets nothing. Never rejects. */
  async #giveBack(rows: readonly ReturnRow[]): Promise<void> {
    try {
      await this.#calls.giveBack('give_back', rows)
    } catch {
      this.#listener.onUnknownOutcome('give_back')
    }
  }
}

function renewed(taken: Taken, replies: readonly ScriptReply[]): Taken {
  let [wallMs, momentMs] = [0, 0]
  for (const reply of replies) {
    wallMs = reply.wallMs
    for (const [i, { resetMs }] of reply.rows.entries()) {
      if (resetMs > 0 && taken.momentMs <= resetMs) return taken
      momentMs = Math.max(momentMs, takenMs(reply, i))
    }
  }
  return { wallMs, momentMs, from: 'shared' }
}

function write({ rows, reply }: QueryCall, charges: Charges, results: ChargeResults, isGivenBack: boolean): void {
  const { fits, wallMs } = reply!
  for (let i = 0; i < rows.length; i++) {
    const { row } = rows[i]!
    const { level: left, leased, warning } = reply!.rows[i]!
    const { limit } = charges.counters[row]!
    const cost = charges.costs[row]!
    const level = isGivenBack ? left + cost + leased : left
    results.levels[row] = level
    results.waitsMs[row] = fits ? 0 : algorithmOf(limit).waitMs(limit, level, cost, wallMs)
    if (warning > 0 && !isGivenBack) results.warn(row, warnedPercent(warning))
    results.momentMs = Math.max(results.momentMs, takenMs(reply!, i))
  }
  results.wallMs = wallMs
}
