import { hash } from 'node:crypto'
import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import type { Limit } from '../../limiter/limit.ts'
import type { Charges, OpenRecord, Taken } from '../charges.ts'
import type { CounterOverride, OnWarning, Purpose } from '../counter-store.ts'
import { SubjectWords } from '../subject.ts'
import type { FleetCounter } from './fleet-counter.ts'

/** A counter in Redis, and its limit on this instance. */
export interface CounterRow {
  readonly key: string
  readonly limit: Limit
  /** How long the counter has had this limit. */
  readonly ageMs: number
  /** The override that the limit comes from, if any. */
  readonly override?: CounterOverride | undefined
}

/** A row of a decision, or of a reset. */
export interface QueryRow extends CounterRow {
  /** Its index in the charges. */
  readonly row: number
  readonly cost: number
  /** The most that can be left, given what this process alone has spent. */
  readonly most: number
  /** Tokens to lease beyond the cost; undefined if takes are settled, which excludes leases. */
  readonly lease: number | undefined
  /** The last reset known to this process, or 0. */
  readonly knownResetMs: number
  /** The time of the query, by our estimate of the clock of Redis. */
  readonly wallMs: number
  /** Whether it is charged whether or not enough is left. */
  readonly isChargedAlong: boolean
}

/** Tokens to give back to a counter; a negative number is charged. */
export interface ReturnRow extends CounterRow {
  readonly tokens: number
  /** When the tokens were taken, by the clock of Redis; 0 if there is nothing to give back. */
  readonly takenWallMs: number
  /** Time of the take too, but later than every reset before it. */
  readonly momentMs: number
  /** Whether to keep back what refill may have replaced since the take. */
  readonly isLessRefill: boolean
  /** Warning of a take that is given back. It is withdrawn, because nobody has heard of it. */
  readonly withdrawnWarning?: number
  /** Called with the percentage that a settlement makes a window reach. */
  readonly onWarning?: ((percent: number) => void) | undefined
  /** The record that is closed with it, and the hash that has it. */
  readonly open?: { readonly record: OpenRecord; readonly hash: string } | undefined
}

/** This process's own counts of the counters in a query. */
export interface OwnCounts {
  /** Tokens left by the process's own counts. */
  readonly levels: Float64Array
  /** The last known reset of each, by the clock of Redis, or 0. */
  readonly resetsMs: Float64Array
}

/** A question about counters in Redis: a decision, a check or a reset. */
export interface CounterQuery {
  readonly charges: Charges
  readonly own: OwnCounts
  /** Rows of the charges, and how many tokens to lease with each. */
  readonly rows: readonly number[]
  readonly leases?: readonly number[] | undefined
  readonly nowMs: number
  /** Unix time by our own clock. */
  readonly wallMs: number
  /** By default, a decision. */
  readonly purpose?: Purpose
}

/** Builds the rows of a query. An own count may lag behind by the refill of `slackMs`; `wallMs` is by the clock of Redis. */
export function queryRows(keys: CounterKeys, query: CounterQuery, slackMs: number, wallMs: number): QueryRow[] {
  const { charges, own, rows, leases, nowMs, purpose } = query
  return rows.map((row, i) => {
    const counter = charges.counters[row] as FleetCounter
    const { limit } = counter
    return {
      row,
      key: keys.keyOf(charges, row),
      limit,
      ageMs: nowMs - counter.sinceMs,
      override: counter.override,
      cost: charges.costs[row]!,
      most: own.levels[row]! + algorithmOf(limit).refillIn(limit, slackMs),
      lease: counter.isSettled ? undefined : (leases?.[i] ?? 0),
      knownResetMs: own.resetsMs[row]!,
      wallMs,
      isChargedAlong: isChargedAlong(purpose, limit),
    }
  })
}

/** Whether a counter is charged whatever is left in it: a reservation grows by leave of its windows alone. */
export function isChargedAlong(purpose: Purpose | undefined, limit: Limit): boolean {
  return purpose === 'growth' && !algorithmOf(limit).hasWindows
}

export function settlementRows(keys: CounterKeys, charges: Charges, taken: Taken, nowMs: number, onWarning?: OnWarning): ReturnRow[] {
  const { wallMs: takenWallMs, momentMs } = taken
  const record = charges.open?.sent === undefined ? undefined : charges.open
  return rowsOf(charges).map((row) => {
    const { limit, sinceMs, override } = charges.counters[row] as FleetCounter
    const tokens = charges.costs[row]!
    const key = keys.keyOf(charges, row)
    return {
      key,
      limit,
      ageMs: nowMs - sinceMs,
      override,
      tokens,
      takenWallMs,
      momentMs,
      isLessRefill: false,
      onWarning: onWarning && ((percent) => onWarning(row, percent)),
      open: record && { record, hash: recordHash(keys.prefix, key, record.owner) },
    }
  })
}

/** Builds rows that move the holds among the charges to the current slice. Holds that were not taken from Redis are only added there. */
export function renewalRows(keys: CounterKeys, charges: Charges, taken: Taken, nowMs: number): ReturnRow[] {
  const takenWallMs = taken.from === 'shared' ? taken.wallMs : 0
  return settlementRows(keys, charges, { ...taken, wallMs: takenWallMs }, nowMs).filter(({ limit }) => algorithmOf(limit).isSliced)
}

export function rowsOf(charges: Charges): number[] {
  return Array.from({ length: charges.length }, (_, row) => row)
}

/** Returns the name of the hash for the records that an owner has of a counter, in the slot of the counter. */
export function recordHash(prefix: string, key: string, owner: string): string {
  return `${prefix}open:{${key}}:${owner}`
}

const DIGEST_DIGITS = 32

/** Names counters in Redis by digests, so that nothing that callers send is stored there. */
export class CounterKeys {
  /** That of all keys. */
  readonly prefix: string
  readonly #subject = new SubjectWords()

  constructor(prefix: string) {
    this.prefix = prefix
  }

  keyOf(charges: Charges, row: number): string {
    return this.prefix + (charges.locators === undefined ? this.digestOf(charges, row) : charges.locators[row]!.key!)
  }

  digestOf({ counters, values, valuesFrom }: Charges, row: number): string {
    const subject = this.#subject
    subject.clear()
    subject.addWords((counters[row] as FleetCounter).identityWords)
    for (let i = valuesFrom[row]!; i < valuesFrom[row + 1]!; i++) subject.addText(values[i]!)
    const bytes = new Uint8Array(subject.words.buffer, 0, subject.length * 4)
    return hash('sha256', bytes, 'hex').slice(0, DIGEST_DIGITS)
  }
}
