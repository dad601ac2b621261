/** A quarter of an hour, at one every two seconds. */
const MAX_SAMPLES = 450
/** Of all texts together: names of policies and rules may be long. The oldest samples go first. */
const MAX_CHARACTERS = 1024 * 1024
/** A minute, and a little more. */
const BUSIEST_OF = 33

interface KeptSample {
  readonly time: string
  readonly text: string
  /** The policies that decided most. */
  readonly busiest: readonly string[]
}

/** The samples of the last quarter of an hour, in bounded memory. */
export class RecentSamples {
  /** The oldest first. */
  readonly #samples: KeptSample[] = []
  #characters = 0

  add(time: string, text: string, busiest: readonly string[]): void {
    this.#samples.push({ time, text, busiest })
    this.#characters += text.length
    while (this.#samples.length > MAX_SAMPLES || (this.#characters > MAX_CHARACTERS && this.#samples.length > 1))
      this.#characters -= this.#samples.shift()!.text.length
  }

  /** Those after the sample of this time; where there is none, those of a later time. A clock that was set back hides nothing from those who ask on. */
  since(time: string | undefined): string[] {
    if (time === undefined) return this.#samples.map(({ text }) => text)
    const known = this.#samples.findLastIndex((sample) => sample.time === time)
    const later = known >= 0 ? this.#samples.slice(known + 1) : this.#samples.filter((sample) => sample.time > time)
    return later.map(({ text }) => text)
  }

  /** Whatever decided anything in the last minute is among them, or there are more than a table shows. */
  busiest(): string[] {
    return [...new Set(this.#samples.slice(-BUSIEST_OF).flatMap((sample) => sample.busiest))]
  }
}
