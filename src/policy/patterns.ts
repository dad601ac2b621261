/** Texts that a descriptor's value is compared with: each is the whole value, or with a `*` at its end what the value begins with. */
export class Patterns {
  readonly #texts = new Set<string>()
  readonly #prefixes: string[] = []

  constructor(patterns: Iterable<string>) {
    for (const pattern of patterns) {
      if (isPrefixPattern(pattern)) this.#prefixes.push(pattern.slice(0, -1))
      else this.#texts.add(pattern)
    }
  }

  get hasPrefixes(): boolean {
    return this.#prefixes.length > 0
  }

  /** Those that are whole values. */
  get texts(): Iterable<string> {
    return this.#texts
  }

  cover(value: string): boolean {
    if (this.#texts.has(value)) return true
    for (let i = 0; i < this.#prefixes.length; i++) if (value.startsWith(this.#prefixes[i]!)) return true
    return false
  }
}

export function isPrefixPattern(pattern: string): boolean {
  return pattern.endsWith('*')
}
