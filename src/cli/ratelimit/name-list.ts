const MAX_CHARACTERS = 240

/** Names that are unique, and as bundles allow them: printable ASCII, and not long. */
export class NameList {
  readonly #used = new Set<string>()
  readonly #repeats = new Map<string, number>()

  /** The name, with a number if it is taken. */
  add(name: string): string {
    const base = name.slice(0, MAX_CHARACTERS).replace(/[^\x20-\x7e]/g, '?')
    let text = base
    for (let count = this.#repeats.get(base) ?? 2; this.#used.has(text); count++) {
      text = `${base} ${count}`
      this.#repeats.set(base, count + 1)
    }
    this.#used.add(text)
    return text
  }
}
