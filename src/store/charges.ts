import type { Limit } from '../limiter/limit.ts'
import type { CounterLocator } from './counter-locator.ts'

/** A counter. Only the store that opened it knows more about it. */
export interface Counter {
  readonly limit: Limit
}

/** The charges of one decision, one row per counter. The object is reused across decisions, so that deciding allocates nothing. */
export class Charges {
  /** Number of rows in use. Beyond it, the lists still hold counters and numbers of earlier decisions, but none of their values. */
  length = 0
  valueCount = 0
  readonly counters: (Counter | undefined)[] = []
  /** Descriptor values of all rows, one after the other; those of row i are from valuesFrom[i] up to, not including, valuesFrom[i + 1]. */
  readonly values: string[] = []
  valuesFrom: Int32Array
  costs: Float64Array
  /** Counter locators of the rows, if the rows have no values. They are never set where decisions are made. */
  locators: readonly CounterLocator[] | undefined
  /** The record that a settlement closes, if there is one. It is never set where decisions are made. */
  open: OpenRecord | undefined

  /** There is room for this many rows; it grows with them. The memory of few rows lies within the heap, where it takes no time to allocate. */
  constructor(rows = INITIAL_ROWS) {
    this.valuesFrom = new Int32Array(rows + 1)
    this.costs = new Float64Array(rows)
  }

  clear(): void {
    const { values, valueCount } = this
    for (let i = 0; i < valueCount; i++) values[i] = ''
    this.length = 0
    this.valueCount = 0
  }

  /** Drops the values after the first `count`. */
  dropValues(count: number): void {
    for (let i = count; i < this.valueCount; i++) this.values[i] = ''
    this.valueCount = count
  }

  addValue(value: string): void {
    this.values[this.valueCount++] = value
  }

  /** Adds a row for the values added since the last row. */
  add(counter: Counter, cost: number): void {
    const row = this.length++
    if (row === this.costs.length) this.#grow()
    this.counters[row] = counter
    this.costs[row] = cost
    this.valuesFrom[row + 1] = this.valueCount
  }

  #grow(): void {
    this.valuesFrom = grown(this.valuesFrom, new Int32Array(this.costs.length * 2 + 1))
    this.costs = grown(this.costs, new Float64Array(this.costs.length * 2))
  }
}

const INITIAL_ROWS = 16

function grown<Numbers extends Int32Array | Float64Array>(from: Numbers, to: Numbers): Numbers {
  to.set(from)
  return to
}

/** The results of charges, row by row. The object is reused across decisions, so that deciding allocates nothing. */
export class ChargeResults {
  /** Tokens left: after the take if all rows were taken, else the current ones. */
  levels = new Float64Array(INITIAL_ROWS)
  /** 0 if the row alone would pass, else how long until it would, in milliseconds, or NEVER. */
  waitsMs = new Float64Array(INITIAL_ROWS)
  /** Time of the decision, by the clock of the counters. */
  wallMs = 0
  /** Time of the decision too, but later than every reset before it, even if the clock was set back. */
  momentMs = 0
  takenFrom: TakenFrom = 'local'
  /** Whether the take made a window reach a share to warn of. Only then, `warnings` holds the percentage of each row, or 0. */
  hasWarnings = false
  warnings = new Uint8Array(INITIAL_ROWS)

  warn(row: number, percent: number): void {
    if (!this.hasWarnings) this.warnings.fill(0)
    this.hasWarnings = true
    this.warnings[row] = percent
  }

  /** Copies levels and waits from other results, which explain why the charges were rejected. */
  describe(other: ChargeResults, rows: number): void {
    for (let row = 0; row < rows; row++) {
      this.levels[row] = other.levels[row]!
      this.waitsMs[row] = other.waitsMs[row]!
    }
  }

  /** Makes room for this many rows and clears the warnings. Levels and waits may be lost. */
  growTo(rows: number): void {
    this.hasWarnings = false
    if (rows <= this.levels.length) return
    this.levels = new Float64Array(rows * 2)
    this.waitsMs = new Float64Array(rows * 2)
    this.warnings = new Uint8Array(rows * 2)
  }
}

/** The record of a reservation in flight, from which other instances give it back if this process dies: `redis/open-records.ts` describes it. */
export interface OpenRecord {
  /** Names the thread that reported it. */
  readonly owner: string
  readonly field: string
  /** The reservation's counters. */
  readonly keys: readonly string[]
  /** When and where the reservation was last taken. */
  taken: Taken
  /** What the last report said would be given back; undefined before the first. */
  sent: number | undefined
  /** What was last confirmed; undefined if nothing was. */
  known: number | undefined
  /** How many reports may still be on their way. */
  doubts: number
  /** The reservation was settled, or its record was lost: nothing is reported any more. */
  isClosed: boolean
}

/** A reservation in flight that was taken from the counters of a fleet. */
export interface OpenReservation {
  /** Remembers its record. */
  readonly holder: { open?: OpenRecord | undefined }
  /** When and where it was last taken. */
  readonly taken: Taken
  /** Whether amounts are billionths of a currency's unit, and not tokens. */
  readonly isMoney: boolean
  /** What each part would give back if the request ended now, and what would stay charged. */
  readonly parts: readonly { readonly charges: Charges; readonly taken: Taken; readonly kept: number }[]
}

/** Which counters a decision took from: this process's own, those that a fleet shares, or none because nothing was taken. */
export type TakenFrom = 'local' | 'shared' | 'none'

/** When something was taken, by the clock of its counters, and from which counters: a settlement corrects the same ones. */
export interface Taken {
  /** A time within the window that was charged. */
  readonly wallMs: number
  /** Orders the take among resets: later than every reset before it and no later than any after it, even if the clock was set back. */
  readonly momentMs: number
  readonly from: TakenFrom
  /** Nobody knows which instance took it, so all instances correct their own counts. */
  readonly isTakerUnknown?: boolean
}
