const SECOND_MS = 1000

/** Lets a number of log lines through per subject and interval, and counts the others. */
export class Sampler<Subject> {
  readonly #samples: Samples<Subject>
  readonly #lines: number
  readonly #intervalMs: number

  /** `samples` is a Map, or a WeakMap for subjects that come and go. */
  constructor(samples: Samples<Subject>, lines = 1, intervalMs = SECOND_MS) {
    this.#samples = samples
    this.#lines = lines
    this.#intervalMs = intervalMs
  }

  /** Returns how many lines were held back since the last one that passed, or undefined if this one must be held back too. */
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
  /** Lines that may still pass before `nextAtMs`. */
  linesLeft: number
  /** Lines held back since the last one that passed. */
  unlogged: number
}

interface Samples<Subject> {
  get(subject: Subject): Sample | undefined
  set(subject: Subject, sample: Sample): unknown
}
