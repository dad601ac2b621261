/** What a round found wrong, each in a sentence. */
export class Findings {
  readonly all: string[] = []
  /** Comparisons made, so that a scenario cannot pass because it looked at nothing. */
  checks = 0

  equal(what: string, found: number, expected: number): void {
    this.checks++
    if (found !== expected) this.all.push(`${what}: expected exactly ${expected}, found ${found}`)
  }

  within(what: string, found: number, low: number, high: number): void {
    if (low === high) return this.equal(what, found, low)
    this.checks++
    if (!(found >= low && found <= high)) this.all.push(`${what}: expected ${low} to ${high}, found ${found}`)
  }

  atMost(what: string, found: number, most: number): void {
    this.checks++
    if (!(found <= most)) this.all.push(`${what}: expected at most ${most}, found ${found}`)
  }

  note(sentence: string): void {
    this.all.push(sentence)
  }
}

/** Ends a scenario: a number was not what it must be. */
export class SoakFailure extends Error {
  override readonly name = 'SoakFailure'
}
