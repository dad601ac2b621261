const INTERVAL_MS = 1000

/** Lets a number of lines through per subject and second, and counts the others. */
export class Sampler<Subject> {
  readonly #samples: Samples<Subject>
  readonly #linesPerSecond: number

  /** A Map, or a WeakMap for subjects that come and go. */
  constructor(samples: Samples<Subject>, linesPerSecond = 1) {
    this.#samples = samples
    this.#linesPerSecond = linesPerSecond
  }

  /** How many were held back since the last line, or undefined: hold this one back too. */
  admit(subject: Subject, nowMs: number): number | undefined {
    const sample = this.#samples.get(subject)
    if (sample !== undefined && nowMs < sample.nextAtMs) {
      if (sample.linesLeft-- > 0) return 0
      sample.unlogged++
      return undefined
    }
    this.#samples.set(subject, { nextAtMs: nowMs + INTERVAL_MS, linesLeft: this.#linesPerSecond - 1, unlogged: 0 })
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
