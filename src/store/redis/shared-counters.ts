import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import type { BucketLimit } from '../../limiter/limit.ts'
import type { Answers, Taken } from '../answers.ts'
import type { Charges } from '../charges.ts'
import { CounterKeys } from './counter-keys.ts'
import { type Question, questionRows, type ReturnRow, settlementRows } from './counter-rows.ts'
import { type DoubtListener, isInDoubt } from './doubt.ts'
import type { LinkError } from './link/link-error.ts'
import type { Script } from './link/script.ts'
import { type QuestionCall, returnsOf, takenMs } from './question-call.ts'
import { type CounterLink, ScriptCalls } from './script-calls.ts'
import { Settlements } from './settlements.ts'
import { groupsOf } from './slot-groups.ts'

export interface SharedSettings {
  /** Of all keys. */
  readonly prefix: string
  /** The longest that an answer may take. */
  readonly maxSlackMs: number
}

/** The counters in Redis. The rows of a call are taken, checked, settled or reset by one script, as a whole or not at all. */
export class SharedCounters {
  readonly #link: CounterLink
  readonly #calls: ScriptCalls
  readonly #keys: CounterKeys
  readonly #settlements: Settlements
  readonly #maxSlackMs: number
  readonly #listener: DoubtListener
  /** How far the clock of Redis is ahead of ours, as far as that ever made a difference. */
  #aheadMs = 0

  constructor(link: CounterLink, script: Script, { prefix, maxSlackMs }: SharedSettings, listener: DoubtListener) {
    this.#link = link
    this.#calls = new ScriptCalls(link, script)
    this.#keys = new CounterKeys(prefix)
    this.#settlements = new Settlements(link, this.#calls, listener)
    this.#maxSlackMs = maxSlackMs
    this.#listener = listener
  }

  /** The time whose refill an own count may lag behind by: it is charged only when the answer has arrived. */
  get slackMs(): number {
    return Math.min(2 * this.#calls.slowestMs, this.#maxSlackMs)
  }

  keyOf(charges: Charges, row: number): string {
    return this.#keys.keyOf(charges, row)
  }

  /** What the clock of Redis says when ours says `wallMs`, near enough to know the window: whoever goes by it rarely has to ask again. */
  redisWallMs(wallMs: number): number {
    return wallMs + this.#aheadMs
  }

  /** The calls that a decision takes, or undefined where a node that they need is not to be asked. */
  callsFor(action: 'take' | 'check', question: Question): QuestionCall[] | undefined {
    const calls = this.#callsFor(action, question)
    return calls.every(({ number }) => this.#link.isUsable(number)) ? calls : undefined
  }

  /**
   * Takes or checks, and writes the answers into `answers`. Returns whether all fit; 'other_window' where nothing was taken, for Redis is in a
   * window that the question did not name, and `redisWallMs` knows better now. Rejects with a LinkError where a node has not answered; what
   * other nodes took is given back.
   */
  async ask(calls: readonly QuestionCall[], charges: Charges, answers: Answers): Promise<boolean | 'other_window'> {
    let failure: LinkError | undefined
    try {
      // Most decisions take one call.
      if (calls.length === 1) await this.#run(calls[0]!)
      else failure = await this.#runAll(calls)
    } catch (error) {
      failure = error as LinkError
    }
    answers.momentMs = 0
    const isOtherWindow = calls.some(({ answer }) => answer?.fits === 'other_window')
    const fits = failure === undefined && calls.every(({ answer }) => answer!.fits === true)
    for (const call of calls) {
      const { answer, action } = call
      if (answer === undefined || answer.fits === 'other_window') continue
      const isGivenBack = !fits && answer.fits && action === 'take'
      // All of it: were each reject to cost what the refill may have made up for, a flood of them would use up the others' limits.
      if (isGivenBack) void this.#giveBack(returnsOf(call, false))
      if (!isOtherWindow) write(call, charges, answers, isGivenBack)
    }
    if (failure !== undefined) throw failure
    return isOtherWindow ? 'other_window' : fits
  }

  /** Gives back what `ask` has taken and leased, less what the refill may have made up for since. Never rejects. */
  async giveBack(calls: readonly QuestionCall[]): Promise<void> {
    await Promise.all(calls.map((call) => this.#giveBack(returnsOf(call, true))))
  }

  /** Done when Redis has it, when it is kept for later, or when nobody can tell. Never rejects. */
  async settle(charges: Charges, taken: Taken, nowMs: number): Promise<void> {
    await this.#settlements.settle(settlementRows(this.#keys, charges, taken, nowMs))
  }

  /** Sends settlements that could not be sent before. */
  async sendUnsent(): Promise<void> {
    await this.#settlements.sendUnsent()
  }

  /** Gives leased tokens back, less what the refill may have made up for since. Never rejects; returns whether it was done. */
  async giveBackLease(key: string, limit: BucketLimit, tokens: number, leasedMs: number): Promise<boolean> {
    if (!this.#link.isUsable(this.#link.groupOf(key))) return false
    try {
      await this.#calls.giveBack('give_back', [
        { key, limit, ageMs: 0, tokens, takenWallMs: leasedMs, momentMs: leasedMs, isLessRefill: true },
      ])
      return true
    } catch (error) {
      if (isInDoubt(error)) this.#listener.onDoubt('lease')
      return false
    }
  }

  /** Resets counters, whatever the circuits say. Never rejects: what became of each call, and the first LinkError there was. */
  async reset(question: Question): Promise<{ calls: readonly QuestionCall[]; failure: LinkError | undefined }> {
    const calls = this.#callsFor('reset', question)
    return { calls, failure: await this.#runAll(calls) }
  }

  #callsFor(action: QuestionCall['action'], question: Question): QuestionCall[] {
    const { wallMs: askedWallMs } = question
    const rows = questionRows(this.#keys, question, this.slackMs, this.redisWallMs(askedWallMs))
    return groupsOf(this.#link, rows).map(({ number, rows }) => ({ number, rows, action, askedWallMs, answer: undefined }))
  }

  /** Returns what the first call failed with that did. */
  async #runAll(calls: readonly QuestionCall[]): Promise<LinkError | undefined> {
    const results = await Promise.allSettled(calls.map((call) => this.#run(call)))
    return results.find((result) => result.status === 'rejected')?.reason as LinkError | undefined
  }

  async #run(call: QuestionCall): Promise<void> {
    const { action, rows } = call
    try {
      const answer = await this.#calls.ask(action, rows)
      call.answer = answer
      if (answer.fits === 'other_window') this.#aheadMs = answer.wallMs - call.askedWallMs
    } catch (error) {
      if (action === 'take' && isInDoubt(error)) this.#listener.onDoubt(rows.every(({ cost }) => cost === 0) ? 'lease' : 'take')
      throw error
    }
  }

  /** Not waited for: later calls to the same node come after it. A counter that was begun or reset after the take gets nothing. */
  async #giveBack(rows: readonly ReturnRow[]): Promise<void> {
    try {
      await this.#calls.giveBack('give_back', rows)
    } catch {
      this.#listener.onDoubt('give_back')
    }
  }
}

function write({ rows, answer }: QuestionCall, charges: Charges, answers: Answers, isGivenBack: boolean): void {
  const { fits, wallMs, levels, leased } = answer!
  for (const [i, { row }] of rows.entries()) {
    const { limit } = charges.counters[row]!
    const cost = charges.costs[row]!
    const level = isGivenBack ? levels[i]! + cost + leased[i]! : levels[i]!
    answers.levels[row] = level
    answers.waitsMs[row] = fits ? 0 : algorithmOf(limit).waitMs(limit, level, cost, wallMs)
  }
  answers.wallMs = wallMs
  for (let i = 0; i < rows.length; i++) answers.momentMs = Math.max(answers.momentMs, takenMs(answer!, i))
}
