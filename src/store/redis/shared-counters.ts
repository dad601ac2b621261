import { hash } from 'node:crypto'
import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { BUCKET, type BucketLimit } from '../../limiter/limit.ts'
import type { Answers } from '../answers.ts'
import type { Charges, Counter } from '../charges.ts'
import { SubjectWords } from '../subject.ts'
import { inBatches } from './in-batches.ts'
import { LinkError, type RedisLink, type Script } from './link/redis-link.ts'
import { readAnswer, type ScriptAnswer } from './script-answer.ts'
import { UnsentSettlements } from './unsent-settlements.ts'

export interface SharedCounter extends Counter {
  /** Its identity as a subject begins with it. */
  readonly identityWords: Int32Array
  /** Takes are never settled. */
  readonly isLeasable: boolean
  readonly sinceMs: number
}

/** What counters need of a connection. */
type CounterLink = Pick<RedisLink, 'groupOf' | 'isUsable' | 'run'>

export interface SharedSettings {
  /** Of all keys. */
  readonly prefix: string
  /** The longest that an answer may take. */
  readonly maxSlackMs: number
}

/** What may become of a call besides an answer. */
export interface DoubtListener {
  /** Nobody knows whether it was done, and it is not tried again. */
  onDoubt(what: 'take' | 'give_back' | 'settlement' | 'lease'): void
}

/** Rows of a decision that one call can reach. */
export interface RowGroup {
  readonly number: number
  readonly rows: number[]
  readonly keys: string[]
  readonly args: string[]
  /** When it was answered, by the clock of Redis. */
  answeredWallMs: number
  /** How often Redis has answered a settlement with an error. */
  refusals: number
}

/** Tokens leased, and when, by the clock of Redis. */
export interface Grant {
  readonly tokens: number
  readonly wallMs: number
}

/** Cost, size, rate, most, since, more: as the script wants them. */
const ARGS_PER_ROW = 6
/** In place of what to lease. */
const SETTLED = -1
/** How much of a take is given back: all of it, or what the refill since then cannot have made up for. */
const ALL = 0
const LESS_REFILL = 1
const DIGEST_DIGITS = 32
const MAX_REFUSALS = 10
/** A thousand answers later, a third of it counts. */
const SLOWEST_FADES = 0.999

/** The counters in Redis. Each group of rows is taken, checked or settled by one script, as a whole or not at all. */
export class SharedCounters {
  readonly #link: CounterLink
  readonly #script: Script
  readonly #prefix: string
  readonly #maxSlackMs: number
  readonly #listener: DoubtListener
  readonly #unsent: UnsentSettlements
  readonly #subject = new SubjectWords()
  /** How long the slowest answer took of late. */
  #slowestMs = 0

  constructor(link: CounterLink, script: Script, { prefix, maxSlackMs }: SharedSettings, listener: DoubtListener) {
    this.#link = link
    this.#script = script
    this.#prefix = prefix
    this.#maxSlackMs = maxSlackMs
    this.#listener = listener
    this.#unsent = new UnsentSettlements(() => listener.onDoubt('settlement'))
  }

  /** By as much refill an own count may lag behind: it hears of a take when the answer is here. */
  get slackMs(): number {
    return Math.min(2 * this.#slowestMs, this.#maxSlackMs)
  }

  /** A digest: what callers send never reaches Redis. */
  keyOf(counter: SharedCounter, values: readonly string[], from: number, to: number): string {
    const subject = this.#subject
    subject.clear()
    subject.addWords(counter.identityWords)
    for (let i = from; i < to; i++) subject.addText(values[i]!)
    const bytes = new Uint8Array(subject.words.buffer, 0, subject.length * 4)
    return this.#prefix + hash('sha256', bytes, 'hex').slice(0, DIGEST_DIGITS)
  }

  /**
   * The calls that these rows of a decision take, or undefined where a node that they need is not to be asked. The
   * levels in `own` are those of this process's own counters: no call gets more than that. `asks`: how many tokens to
   * lease with each row, beyond its cost.
   */
  callsFor(
    action: 'take' | 'check',
    charges: Charges,
    own: Answers,
    rows: readonly number[],
    nowMs: number,
    wallMs: number,
    asks?: readonly number[],
  ): RowGroup[] | undefined {
    const groups = this.#group(action, charges, own, rows, nowMs, wallMs, asks)
    return groups.every(({ number }) => this.#link.isUsable(number)) ? groups : undefined
  }

  /**
   * Takes or checks, and writes the answers into `charges`. Answers whether all fit; `leased` gets what was leased, by
   * row. Rejects with a LinkError where a node has not answered; what other nodes took is given back.
   */
  async ask(groups: readonly RowGroup[], charges: Charges, answers: Answers, leased?: Map<number, Grant>): Promise<boolean> {
    const [only] = groups
    if (groups.length === 1) {
      const answer = await this.#run(only!)
      this.#write(only!, answer, charges, answers, false, leased)
      return answer.fits
    }
    return this.#askAll(groups, charges, answers, leased)
  }

  /** Gives back what `ask` has taken and leased, and the refill since cannot have made up for. Never rejects. */
  async giveBack(groups: readonly RowGroup[], leased?: ReadonlyMap<number, Grant>): Promise<void> {
    const leasesOf = ({ rows }: RowGroup) => rows.map((row) => leased?.get(row)?.tokens ?? 0)
    await Promise.all(groups.map((group) => this.#giveBack(group, leasesOf(group), LESS_REFILL)))
  }

  /** Done when Redis has it, when it is kept for later, or when nobody can tell. Never rejects. */
  async settle(charges: Charges, takenWallMs: number, nowMs: number): Promise<void> {
    const groups = this.#group('settle', charges, undefined, rowsOf(charges), nowMs, takenWallMs)
    await Promise.all(groups.map((group) => this.#settle(group)))
  }

  /** Gives leased tokens back that the refill since cannot have made up for. Never rejects; answers whether it was done. */
  async giveBackLease(key: string, { tokensPerMs, burst }: BucketLimit, tokens: number, leasedWallMs: number): Promise<boolean> {
    if (!this.#link.isUsable(this.#link.groupOf(key))) return false
    try {
      await this.#link.run(this.#script, [key], ['give_back', ...[tokens, burst, tokensPerMs, leasedWallMs, 0, LESS_REFILL].map(String)])
      return true
    } catch (error) {
      if (isInDoubt(error)) this.#listener.onDoubt('lease')
      return false
    }
  }

  /** Sends what could not be sent before. */
  async sendUnsent(): Promise<void> {
    await inBatches(this.#unsent.takeAll(), (group) => this.#settle(group))
  }

  async #askAll(groups: readonly RowGroup[], charges: Charges, answers: Answers, leased: Map<number, Grant> | undefined): Promise<boolean> {
    const results = await Promise.allSettled(groups.map((group) => this.#run(group)))
    const failure = results.find((result) => result.status === 'rejected')
    const fits = failure === undefined && results.every((result) => result.status === 'fulfilled' && result.value.fits)
    for (const [i, result] of results.entries()) {
      if (result.status === 'rejected') continue
      const isGivenBack = !fits && result.value.fits && groups[i]!.args[0] === 'take'
      // All of it: were each reject to cost what the refill may have made up for, a flood of them would use up the others' limits.
      if (isGivenBack) void this.#giveBack(groups[i]!, result.value.leased, ALL)
      this.#write(groups[i]!, result.value, charges, answers, isGivenBack, leased)
    }
    if (failure !== undefined) throw failure.reason
    return fits
  }

  async #run(group: RowGroup): Promise<ScriptAnswer> {
    const sentMs = performance.now()
    try {
      const reply = await this.#link.run(this.#script, group.keys, group.args)
      this.#slowestMs = Math.max(performance.now() - sentMs, this.#slowestMs * SLOWEST_FADES)
      const answer = readAnswer(reply, group.rows.length)
      group.answeredWallMs = answer.wallMs
      return answer
    } catch (error) {
      if (group.args[0] === 'take' && isInDoubt(error)) this.#listener.onDoubt(group.args[1] === '0' ? 'lease' : 'take')
      throw error
    }
  }

  #write(
    group: RowGroup,
    { fits, wallMs, levels, leased: leases }: ScriptAnswer,
    charges: Charges,
    answers: Answers,
    isGivenBack: boolean,
    leased?: Map<number, Grant>,
  ): void {
    for (const [i, row] of group.rows.entries()) {
      const { limit } = charges.counters[row]!
      const cost = charges.costs[row]!
      const lease = leases[i]!
      const level = isGivenBack ? levels[i]! + cost + lease : levels[i]!
      answers.levels[row] = level
      answers.waitsMs[row] = fits ? 0 : algorithmOf(limit).waitMs(limit, level, cost, wallMs)
      if (limit.kind !== BUCKET) answers.takenWallMs = wallMs
      if (!isGivenBack) leased?.set(row, { tokens: lease, wallMs })
    }
  }

  /** Not waited for: later calls to the same node come after it. A counter that was begun after the take gets nothing. */
  async #giveBack(group: RowGroup, leased: readonly number[], share: typeof ALL | typeof LESS_REFILL): Promise<void> {
    const args = ['give_back']
    const { answeredWallMs } = group
    for (let i = 0; i < group.rows.length; i++) {
      const at = 1 + i * ARGS_PER_ROW
      const [cost, size, rate, , since] = group.args.slice(at, at + ARGS_PER_ROW)
      const tokens = Number(cost) + leased[i]!
      const day = String(Math.floor(answeredWallMs / 86_400_000))
      args.push(String(tokens), size!, rate!, String(answeredWallMs), rate === '0' ? day : since!, String(share))
    }
    try {
      await this.#link.run(this.#script, group.keys, args)
    } catch {
      this.#listener.onDoubt('give_back')
    }
  }

  async #settle(group: RowGroup): Promise<void> {
    if (!this.#link.isUsable(group.number)) return this.#unsent.add(group)
    try {
      await this.#link.run(this.#script, group.keys, group.args)
    } catch (error) {
      if (isInDoubt(error) || isRefused(error, group)) this.#listener.onDoubt('settlement')
      else this.#unsent.add(group)
    }
  }

  #group(
    action: 'take' | 'check' | 'settle',
    charges: Charges,
    own: Answers | undefined,
    rows: readonly number[],
    nowMs: number,
    wallMs: number,
    asks?: readonly number[],
  ): RowGroup[] {
    const groups: RowGroup[] = []
    for (const [i, row] of rows.entries()) {
      const counter = charges.counters[row] as SharedCounter
      const { limit, sinceMs } = counter
      const key = this.keyOf(counter, charges.values, charges.valuesFrom[row]!, charges.valuesFrom[row + 1]!)
      const number = this.#link.groupOf(key)
      let group = groups.find((other) => other.number === number)
      if (group === undefined) {
        group = { number, rows: [], keys: [], args: [action], answeredWallMs: 0, refusals: 0 }
        groups.push(group)
      }
      group.rows.push(row)
      group.keys.push(key)
      const size = algorithmOf(limit).size(limit)
      const [rate, since] = limit.kind === BUCKET ? [limit.tokensPerMs, nowMs - sinceMs] : [0, limit.calendar.windowAt(wallMs).number]
      const most = own === undefined ? size : own.levels[row]! + rate * this.slackMs
      const more = action === 'settle' || counter.isLeasable ? (asks?.[i] ?? 0) : SETTLED
      for (const number of [charges.costs[row]!, size, rate, most, since, more]) group.args.push(String(number))
    }
    return groups
  }
}

export function rowsOf(charges: Charges): number[] {
  return Array.from({ length: charges.length }, (_, row) => row)
}

/** Again and again: it will not be done. */
function isRefused(error: unknown, group: RowGroup): boolean {
  if ((error as LinkError).fate === 'refused') group.refusals++
  return group.refusals >= MAX_REFUSALS
}

/** It may have been done. */
function isInDoubt(error: unknown): boolean {
  return !(error instanceof LinkError) || error.fate === 'unknown'
}
