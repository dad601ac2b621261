/** A request that was let through at some moment between its question and its answer. */
export interface Admission {
  readonly askedMs: number
  readonly answeredMs: number
  readonly cost: number
}

export interface Window {
  readonly fromMs: number
  readonly toMs: number
  /** What was surely let through in it: asked and answered inside. */
  readonly tokens: number
  /** `tokens` less what the rate brings in this time: at most the burst where the limit holds. */
  readonly burst: number
}

/** What clients saw let through, by one clock, from all instances. */
export class Admissions {
  readonly all: Admission[] = []
  /** How many were told that the limit is used up. */
  rejected = 0

  get tokens(): number {
    return this.all.reduce((sum, { cost }) => sum + cost, 0)
  }

  /** Asks, and remembers when it was let through. */
  async asking<Answer extends { readonly status: number }>(ask: () => Promise<Answer>, cost = 1): Promise<Answer> {
    const askedMs = performance.now()
    const answer = await ask()
    if (answer.status === 200) this.all.push({ askedMs, answeredMs: performance.now(), cost })
    if (answer.status === 429) this.rejected++
    return answer
  }
}

/** Of all windows the one that needed the largest burst at this rate. Looks at every window there is, in n log n. */
export function worstWindow(admissions: readonly Admission[], tokensPerMs: number): Window {
  const starts = [...new Set(admissions.map(({ askedMs }) => askedMs))].sort((a, b) => a - b)
  const indexOf = new Map(starts.map((startMs, index) => [startMs, index]))
  // For each start, with the end moving on: what was let through between them, plus rate × start. The end's own share comes off below.
  const sums = new PrefixSums(starts.map((startMs) => tokensPerMs * (startMs - starts[0]!)))
  let worst = { startIndex: 0, toMs: starts[0] ?? 0, burst: 0 }
  for (const { askedMs, answeredMs, cost } of [...admissions].sort((a, b) => a.answeredMs - b.answeredMs)) {
    const last = indexOf.get(askedMs)!
    sums.add(last, cost)
    // Only a window that holds this admission can be worse than those before.
    const { index, value } = sums.highest(last)
    const burst = value - tokensPerMs * (answeredMs - starts[0]!)
    if (burst > worst.burst) worst = { startIndex: index, toMs: answeredMs, burst }
  }
  const fromMs = starts[worst.startIndex] ?? 0
  const { toMs, burst } = worst
  const inside = admissions.filter(({ askedMs, answeredMs }) => askedMs >= fromMs && answeredMs <= toMs)
  return { fromMs, toMs, tokens: inside.reduce((sum, { cost }) => sum + cost, 0), burst }
}

/** Values in a row; something is added to all up to a place, and the highest up to a place is asked for. A tree of maxima. */
class PrefixSums {
  readonly #size: number
  /** The highest below each node, without what was added to the nodes above it. */
  readonly #highest: Float64Array
  readonly #added: Float64Array

  constructor(values: readonly number[]) {
    let size = 1
    while (size < values.length) size *= 2
    this.#size = size
    this.#highest = new Float64Array(2 * size).fill(Number.NEGATIVE_INFINITY)
    this.#added = new Float64Array(2 * size)
    this.#highest.set(values, size)
    for (let node = size - 1; node >= 1; node--) this.#refresh(node)
  }

  /** To all from the first to `last`. */
  add(last: number, amount: number): void {
    let node = last + this.#size
    this.#addTo(node, amount)
    for (; node > 1; node >>= 1) {
      if (node % 2 === 1) this.#addTo(node - 1, amount)
      this.#refresh(node >> 1)
    }
  }

  highest(last: number): { index: number; value: number } {
    let node = last + this.#size
    let best = node
    let value = this.#highest[node]!
    for (; node > 1; node >>= 1) {
      if (node % 2 === 1 && this.#highest[node - 1]! > value) {
        best = node - 1
        value = this.#highest[best]!
      }
      value += this.#added[node >> 1]!
    }
    while (best < this.#size) best = this.#highest[2 * best]! >= this.#highest[2 * best + 1]! ? 2 * best : 2 * best + 1
    return { index: best - this.#size, value }
  }

  #addTo(node: number, amount: number): void {
    this.#highest[node]! += amount
    this.#added[node]! += amount
  }

  #refresh(node: number): void {
    this.#highest[node] = Math.max(this.#highest[2 * node]!, this.#highest[2 * node + 1]!) + this.#added[node]!
  }
}
