const INTERVAL_MS = 1000

/** Lets one line through per subject and second, and counts the others. */
export class Sampler<Subject> {
  readonly #samples: Samples<Subject>

  /** A Map, or a WeakMap for subjects that come and go. */
  constructor(samples: Samples<Subject>) {
    this.#samples = samples
  }

  /** How many were held back since the last line, or undefined: hold this one back too. */
  admit(subject: Subject, nowMs: number): number | undefined {
    const sample = this.#samples.get(subject)
    if (sample !== undefined && nowMs < sample.nextAtMs) {
      sample.unlogged++
      return undefined
    }
    this.#samples.set(subject, { nextAtMs: nowMs + INTERVAL_MS, unlogged: 0 })
    return sample?.unlogged ?? 0
  }
}

interface Sample {
  readonly nextAtMs: number
  /** Since the last line. */
  unlogged: number
}

interface Samples<Subject> {
  get(subject: Subject): Sample | undefined
  set(subject: Subject, sample: Sample): unknown
}
