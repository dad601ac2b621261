import type { Limit } from '../limiter/limit.ts'
import type { CounterLocator } from './counter-locator.ts'

/** A counter. Only the store that opened it knows more of it. */
export interface Counter {
  readonly limit: Limit
}

/** What one decision takes, a row per counter. One object is used for many decisions, so that deciding allocates nothing. */
export class Charges {
  /** How many rows there are. Beyond them the lists hold counters and numbers of earlier decisions, but none of their values. */
  length = 0
  valueCount = 0
  readonly counters: (Counter | undefined)[] = []
  /** The descriptor values of all rows, one after the other; those of row i are from valuesFrom[i] up to valuesFrom[i + 1]. */
  readonly values: string[] = []
  valuesFrom = new Int32Array(INITIAL_ROWS + 1)
  costs = new Float64Array(INITIAL_ROWS)
  /** Where the counters of the rows are, if the rows have no values. Never set where decisions are made. */
  locators: readonly CounterLocator[] | undefined

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
