import type { TakenFrom } from './taken.ts'

/** What a store returns for charges, row by row. One object is used for many decisions, so that deciding allocates nothing. */
export class ChargeResults {
  /** Tokens left: after the take if all rows were taken, else the current ones. */
  levels = new Float64Array(INITIAL_ROWS)
  /** 0 where the row alone would pass, else how long until it would, or NEVER. */
  waitsMs = new Float64Array(INITIAL_ROWS)
  /** The time of the decision, by the clock of the counters. */
  wallMs = 0
  /** The same, but later than every reset before it, even if the clock was set back. */
  momentMs = 0
  takenFrom: TakenFrom = 'local'
  /** Whether the take made a window reach a share to warn of; only then `warnings` has the percentage by row, or 0. */
  hasWarnings = false
  warnings = new Uint8Array(INITIAL_ROWS)

  warn(row: number, percent: number): void {
    if (!this.hasWarnings) this.warnings.fill(0)
    this.hasWarnings = true
    this.warnings[row] = percent
  }

  /** Takes over the levels and waits of other results: what they say is why the charges were rejected. */
  describe(other: ChargeResults, rows: number): void {
    for (let row = 0; row < rows; row++) {
      this.levels[row] = other.levels[row]!
      this.waitsMs[row] = other.waitsMs[row]!
    }
  }

  /** Makes room. The old values are lost. */
  growTo(rows: number): void {
    this.hasWarnings = false
    if (rows <= this.levels.length) return
    this.levels = new Float64Array(rows * 2)
    this.waitsMs = new Float64Array(rows * 2)
    this.warnings = new Uint8Array(rows * 2)
  }
}

const INITIAL_ROWS = 16
