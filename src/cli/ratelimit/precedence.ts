import type { Entry } from './configuration.ts'

/*
 * For each entry of a descriptor, envoyproxy/ratelimit takes at each level the entry with this very value, else the first whose value is a
 * prefix with `*`, else the one without a value. It never goes back.
 */

/** One step of the way from the top of a configuration to a limit. */
export interface Level {
  readonly entry: Entry
  /** As bundles have it. */
  readonly key: string
  /** Patterns of other entries of the key that take precedence, none covered by another. */
  readonly except: readonly string[]
  readonly siblings: KeyEntries
}

/** Entries of one key, at one level. */
export class KeyEntries {
  readonly #texts: string[] = []
  readonly #prefixes: string[] = []
  readonly #valued: Entry[] = []

  add(entry: Entry): void {
    if (entry.value === undefined) return
    this.#valued.push(entry)
    if (isPrefix(entry.value)) this.#prefixes.push(entry.value.slice(0, -1))
    else this.#texts.push(entry.value)
  }

  /** Those for certain values. */
  get valued(): readonly Entry[] {
    return this.#valued
  }

  get prefixCount(): number {
    return this.#prefixes.length
  }

  /** Patterns of the values that others take from an entry. Undefined: all of its values. */
  exceptionsOf({ value }: Entry): readonly string[] | undefined {
    if (value !== undefined && !isPrefix(value)) return []
    const own = value?.slice(0, -1) ?? ''
    const before = value === undefined ? this.#prefixes : this.#prefixes.slice(0, this.#prefixes.indexOf(own))
    if (before.some((prefix) => own.startsWith(prefix))) return undefined
    const prefixes = shortest(before.filter((prefix) => prefix.startsWith(own)))
    const texts = this.#texts.filter((text) => text.startsWith(own) && !prefixes.some((prefix) => text.startsWith(prefix)))
    return [...texts, ...prefixes.map((prefix) => `${prefix}*`)]
  }
}

/** Entries by their key. */
export function byKey(entries: readonly Entry[]): ReadonlyMap<string, KeyEntries> {
  const found = new Map<string, KeyEntries>()
  for (const entry of entries) {
    const known = found.get(entry.key) ?? new KeyEntries()
    known.add(entry)
    found.set(entry.key, known)
  }
  return found
}

export function isPrefix(value: string): boolean {
  return value.endsWith('*')
}

/** Those that no other one begins. */
function shortest(prefixes: readonly string[]): string[] {
  return prefixes.filter((prefix) => !prefixes.some((other) => other !== prefix && prefix.startsWith(other)))
}
