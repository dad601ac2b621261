import type { Limit } from '../../../src/limiter/limit.ts'
import { Charges, type Counter } from '../../../src/store/charges.ts'
import type { CounterStore, Outcome } from '../../../src/store/counter-store.ts'

export interface Row {
  readonly counter: Counter
  readonly values?: readonly string[]
  readonly cost: number
}

export interface Taken {
  readonly taken: Outcome
  readonly levels: readonly number[]
  readonly waitsMs: readonly number[]
}

/** One takeAll, from rows to answers, on any store. */
export async function takeRows(store: CounterStore, rows: readonly Row[], nowMs: number, wallMs = 0): Promise<Taken> {
  const charges = chargesOf(rows)
  return answersOf(charges, await store.takeAll(charges, nowMs, wallMs))
}

/** The same on a store that answers at once. */
export function takeRowsNow(store: CounterStore, rows: readonly Row[], nowMs: number, wallMs = 0): Taken {
  const charges = chargesOf(rows)
  return answersOf(charges, store.takeAll(charges, nowMs, wallMs) as Outcome)
}

/** One checkAll; what it would have taken, it has not. */
export async function checkRows(store: CounterStore, rows: readonly Row[], nowMs: number, wallMs = 0): Promise<Taken> {
  const charges = chargesOf(rows)
  return answersOf(charges, await store.checkAll(charges, nowMs, wallMs))
}

/** One settleAll: each row's cost goes back, and one below zero is charged. Without `takenWallMs` it is the same day still. */
export async function settleRows(
  store: CounterStore,
  rows: readonly Row[],
  nowMs: number,
  wallMs = 0,
  takenWallMs = wallMs,
): Promise<void> {
  const charges = chargesOf(rows)
  charges.takenWallMs = takenWallMs
  await store.settleAll(charges, nowMs, wallMs)
}

export function bucketLimit(tokensPerMs: number, burst: number): Limit {
  return { kind: 'bucket', tokensPerMs, burst }
}

export function dayLimit(tokensPerDay: number): Limit {
  return { kind: 'day', tokensPerDay }
}

function chargesOf(rows: readonly Row[]): Charges {
  const charges = new Charges()
  for (const { counter, values = [], cost } of rows) {
    for (const value of values) charges.addValue(value)
    charges.add(counter, cost)
  }
  return charges
}

function answersOf(charges: Charges, taken: Outcome): Taken {
  return {
    taken,
    levels: [...charges.levels.subarray(0, charges.length)],
    waitsMs: [...charges.waitsMs.subarray(0, charges.length)],
  }
}
