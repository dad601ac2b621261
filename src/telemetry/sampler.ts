const SECOND_MS = 1000

/** Lets a number of lines through per subject and interval, and counts the others. */
export class Sampler<Subject> {
  readonly #samples: Samples<Subject>
  readonly #lines: number
  readonly #intervalMs: number

  /** A Map, or a WeakMap for subjects that come and go. */
  constructor(samples: Samples<Subject>, lines = 1, intervalMs = SECOND_MS) {
    this.#samples = samples
    this.#lines = lines
    this.#intervalMs = intervalMs
  }

  /** How many were held back since the last line, or undefined: hold this one back too. */
  admit(subject: Subject, nowMs: number): number | undefined {
    const sample = this.#samples.get(subject)
    if (sample !== undefined && nowMs < sample.nextAtMs) {
      if (sample.linesLeft-- > 0) return 0
      sample.unlogged++
      return undefined
    }
    this.#samples.set(subject, { nextAtMs: nowMs + this.#intervalMs, linesLeft: this.#lines - 1, unlogged: 0 })
    return sample?.unlogged ?? 0
  }
}

interface Sample {
  readonly nextAtMs: number
  /** Until then. */
  linesLeft: number
  /** Since the last line. */
  unlogged: number
}

interface Samples<Subject> {
  get(subject: Subject): Sample | undefined
  set(subject: Subject, sample: Sample): unknown
}
