import { calendarOf } from '../../../src/limiter/calendar.ts'
import { BUCKET, type BucketLimit, IN_FLIGHT, type InFlightLimit, WINDOW, type WindowLimit } from '../../../src/limiter/limit.ts'
import { ChargeResults, Charges, type Counter, type Taken as TakenAt } from '../../../src/store/charges.ts'
import type { CounterStore, OnWarning, Outcome, Purpose } from '../../../src/store/counter-store.ts'

export interface Row {
  readonly counter: Counter
  readonly values?: readonly string[]
  readonly cost: number
}

export interface Taken {
  readonly taken: Outcome
  readonly levels: readonly number[]
  readonly waitsMs: readonly number[]
  /** The percentages that a take warns of, by row; absent if there are none. */
  readonly warnings?: readonly number[]
}

/** One takeAll, from rows to results, on any store. */
export async function takeRows(
  store: CounterStore,
  rows: readonly Row[],
  nowMs: number,
  wallMs = 0,
  purpose: Purpose = 'decision',
): Promise<Taken> {
  const [charges, results] = [chargesOf(rows), new ChargeResults()]
  return answersOf(charges, results, await store.takeAll(charges, results, nowMs, wallMs, purpose))
}

/** The same on a store that returns no promise. */
export function takeRowsNow(store: CounterStore, rows: readonly Row[], nowMs: number, wallMs = 0): Taken {
  const [charges, results] = [chargesOf(rows), new ChargeResults()]
  return answersOf(charges, results, store.takeAll(charges, results, nowMs, wallMs) as Outcome)
}

/** One checkAll; what it would have taken, it has not. */
export async function checkRows(store: CounterStore, rows: readonly Row[], nowMs: number, wallMs = 0): Promise<Taken> {
  const [charges, results] = [chargesOf(rows), new ChargeResults()]
  return answersOf(charges, results, await store.checkAll(charges, results, nowMs, wallMs))
}

/** One settleAll: each row's cost goes back, and one below zero is charged. Without `takenWallMs` it is the same day still. */
export async function settleRows(
  store: CounterStore,
  rows: readonly Row[],
  nowMs: number,
  wallMs = 0,
  takenWallMs = wallMs,
  onWarning?: OnWarning,
): Promise<void> {
  await store.settleAll(chargesOf(rows), { wallMs: takenWallMs, momentMs: takenWallMs, from: 'local' }, nowMs, wallMs, onWarning)
}

/** One renewAll: each row's cost is moved to the current slice. */
export async function renewRows(store: CounterStore, rows: readonly Row[], taken: TakenAt, nowMs: number, wallMs = 0): Promise<TakenAt> {
  return store.renewAll(chargesOf(rows), taken, nowMs, wallMs)
}

/** One resetAll. */
export async function resetRows(store: CounterStore, rows: readonly Omit<Row, 'cost'>[], nowMs: number, wallMs = 0): Promise<void> {
  await store.resetAll(chargesOf(rows.map((row) => ({ ...row, cost: 0 }))), nowMs, wallMs)
}

export function bucketLimit(tokensPerMs: number, burst: number): BucketLimit {
  return { kind: BUCKET, tokensPerMs, burst }
}

export function dayLimit(tokens: number): WindowLimit {
  return { kind: WINDOW, tokens, calendar: calendarOf('1d', 'UTC') }
}

/** A limit that counts tokens. */
export type TokenLimit = BucketLimit | WindowLimit

/** The same limit, which a request may overdraw. */
export function overdrawn<L extends TokenLimit>(limit: L): L {
  return { ...limit, canOverdraw: true }
}

export function inFlightLimit(max: number, sliceMs: number): InFlightLimit {
  return { kind: IN_FLIGHT, max, sliceMs }
}

function chargesOf(rows: readonly Row[]): Charges {
  const charges = new Charges()
  for (const { counter, values = [], cost } of rows) {
    for (const value of values) charges.addValue(value)
    charges.add(counter, cost)
  }
  return charges
}

function answersOf(charges: Charges, results: ChargeResults, taken: Outcome): Taken {
  return {
    taken,
    levels: [...results.levels.subarray(0, charges.length)],
    waitsMs: [...results.waitsMs.subarray(0, charges.length)],
    ...(taken === true && results.hasWarnings && { warnings: [...results.warnings.subarray(0, charges.length)] }),
  }
}
