import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import type { Limit } from '../../limiter/limit.ts'
import type { Taken } from '../answers.ts'
import type { Charges } from '../charges.ts'
import type { CounterKeys } from './counter-keys.ts'
import type { SharedCounter } from './shared-counter.ts'

/** A counter in Redis, and the limit that it has for whoever asks. */
export interface CounterRow {
  readonly key: string
  readonly limit: Limit
  /** For how long it has had this limit. */
  readonly ageMs: number
}

/** A row of a decision, or of a reset. */
export interface QuestionRow extends CounterRow {
  /** Of the charges. */
  readonly row: number
  readonly cost: number
  /** What it may have at most, by what this process alone has spent. */
  readonly most: number
  /** How many tokens to lease beyond the cost; undefined where takes are settled, and there are no leases. */
  readonly lease: number | undefined
  /** The moment of the last reset that this process knows of, or 0. */
  readonly knownResetMs: number
  /** When it is asked, by the clock of Redis as far as that is known. */
  readonly wallMs: number
}

/** Tokens that go back; a negative number is charged in addition. */
export interface ReturnRow extends CounterRow {
  readonly tokens: number
  /** When it was taken, by the clock of Redis. */
  readonly takenWallMs: number
  /** The same, but later than every reset before it. */
  readonly momentMs: number
  /** Whether what the refill may have made up for since then is not given back. */
  readonly isLessRefill: boolean
}

/** What this process knows of the counters that it asks for. */
export interface OwnCounts {
  /** What is left by its own counters. */
  readonly levels: Float64Array
  /** When each was reset last, by the clock of Redis; 0: never, as far as it knows. */
  readonly resetsMs: Float64Array
}

export interface Question {
  readonly charges: Charges
  readonly own: OwnCounts
  /** The rows to ask for, and how many tokens to lease with each. */
  readonly rows: readonly number[]
  readonly leases?: readonly number[] | undefined
  readonly nowMs: number
  /** By our own clock. */
  readonly wallMs: number
}

/** An own count may lag behind by what comes back in `slackMs`; `wallMs` is by the clock of Redis. */
export function questionRows(keys: CounterKeys, question: Question, slackMs: number, wallMs: number): QuestionRow[] {
  const { charges, own, rows, leases, nowMs } = question
  return rows.map((row, i) => {
    const counter = charges.counters[row] as SharedCounter
    const { limit } = counter
    return {
      row,
      key: keys.keyOf(charges, row),
      limit,
      ageMs: nowMs - counter.sinceMs,
      cost: charges.costs[row]!,
      most: own.levels[row]! + algorithmOf(limit).refillIn(limit, slackMs),
      lease: counter.isLeasable ? (leases?.[i] ?? 0) : undefined,
      knownResetMs: own.resetsMs[row]!,
      wallMs,
    }
  })
}

export function settlementRows(keys: CounterKeys, charges: Charges, taken: Taken, nowMs: number): ReturnRow[] {
  const { wallMs: takenWallMs, momentMs } = taken
  return rowsOf(charges).map((row) => {
    const { limit, sinceMs } = charges.counters[row] as SharedCounter
    const tokens = charges.costs[row]!
    return { key: keys.keyOf(charges, row), limit, ageMs: nowMs - sinceMs, tokens, takenWallMs, momentMs, isLessRefill: false }
  })
}

export function rowsOf(charges: Charges): number[] {
  return Array.from({ length: charges.length }, (_, row) => row)
}
