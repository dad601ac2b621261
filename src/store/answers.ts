/** Who gave what a decision took: this process's own counters, those that a fleet shares, or nobody, for nothing was taken. */
export type Origin = 'own' | 'shared' | 'nobody'

/** When and from whom something was taken, by the clock of whoever gave it. A settlement goes back there. */
export interface Taken {
  /** In the window that it was taken from. */
  readonly wallMs: number
  /** Later than every reset before the take, and no later than any after it, whatever the clock did. */
  readonly momentMs: number
  readonly from: Origin
}

/** What a store says to one question, row by row. One object serves many questions, so that asking allocates nothing. */
export class Answers {
  /** Tokens left, after the take if all rows were taken, else as they stand. */
  levels = new Float64Array(INITIAL_ROWS)
  /** 0 where the row alone would pass, else how long until it would, or NEVER. */
  waitsMs = new Float64Array(INITIAL_ROWS)
  /** When that was, by the clock of whoever said it. */
  wallMs = 0
  /** The same for telling a take from resets: later than every one before it, whatever the clock did. */
  momentMs = 0
  /** Who has given what was taken. */
  takenFrom: Origin = 'own'

  /** Makes room; what was there is gone. */
  growTo(rows: number): void {
    if (rows <= this.levels.length) return
    this.levels = new Float64Array(rows * 2)
    this.waitsMs = new Float64Array(rows * 2)
  }
}

const INITIAL_ROWS = 16
