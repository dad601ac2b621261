const INTERVAL_MS = 1000

/** Lets one line through per subject and second, and counts the others. */
export class Sampler<Subject extends object | string> {
  readonly #samples: Map<Subject, Sample> | WeakMap<Subject & object, Sample>

  constructor(samples: Map<Subject, Sample> | WeakMap<Subject & object, Sample>) {
    this.#samples = samples
  }

  /** How many were held back since the last line, or undefined: hold this one back too. */
  admit(subject: Subject, nowMs: number): number | undefined {
    const samples = this.#samples as Map<Subject, Sample>
    const sample = samples.get(subject) ?? { nextAtMs: Number.NEGATIVE_INFINITY, unlogged: 0 }
    if (nowMs < sample.nextAtMs) {
      sample.unlogged++
      return undefined
    }
    const { unlogged } = sample
    samples.set(subject, { nextAtMs: nowMs + INTERVAL_MS, unlogged: 0 })
    return unlogged
  }
}

interface Sample {
  readonly nextAtMs: number
  /** Since the last line. */
  unlogged: number
}
