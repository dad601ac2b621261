import { load, type Schema, YAMLException } from 'js-yaml'
import type { Read } from './json-document.ts'

export const YAML_MAX_DEPTH = 50
/** Each alias may refer to a list of others, so this bounds how far a small file can expand. */
const MAX_ALIASES = 1000

/** Reads one YAML document. `schema` decides what scalars become; by default, they become values that JSON has. */
export function readYaml(text: string, schema?: Schema): Read {
  try {
    return { value: load(text, { maxDepth: YAML_MAX_DEPTH, maxAliases: MAX_ALIASES, ...(schema && { schema }) }) }
  } catch (error) {
    const { reason, mark } = error instanceof YAMLException ? error : { reason: (error as Error).message }
    const cause = withoutQuotes(reason)
    if (mark === undefined) return { syntax: `not YAML: ${cause}` }
    const [line, column] = [mark.line + 1, mark.column + 1]
    return { syntax: `not YAML: ${cause}, at line ${line}, column ${column}${hintFor(text, mark.line)}`, line, column }
  }
}

/** Some reasons quote an alias or a tag, however long it is. One that was meant as a text may be a secret, and its place is named anyway. */
function withoutQuotes(reason: string): string {
  const unquoted = withoutSpan(withoutSpan(reason, ' "', '"'), ' !<', '>')
  const colon = unquoted.indexOf(': ')
  return unquoted.slice(0, colon < 0 ? 200 : Math.min(colon, 200))
}

/** Returns the text without what is between the first `open` and the last `close`, and without these. */
function withoutSpan(text: string, open: string, close: string): string {
  const [from, to] = [text.indexOf(open), text.lastIndexOf(close)]
  return from < 0 || to < from + open.length ? text : text.slice(0, from) + text.slice(to + close.length)
}

/** YAML takes a text that begins with `*` for an alias, and patterns in bundles often begin with it. */
function hintFor(text: string, line: number): string {
  const isAlias = /(^|[\s,[{])\*/.test(text.split(/\r\n?|\n/, line + 1)[line] ?? '')
  return isAlias ? ' (a text that begins with * needs quotes)' : ''
}

/** Too many values in one part, too many in total, or a value that contains itself. */
export type Excess = 'part' | 'total' | 'endless'

/**
 * Counts parsed values before they are processed. Aliases count each time they are used: they can expand a small file to a huge or
 * endless one.
 */
export class ValueCounter {
  readonly #limit: number
  #count = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Counts one part: a value and all values inside it. Keeps only the path to the current value in memory. */
  add(root: unknown, partLimit = Number.POSITIVE_INFINITY): Excess | undefined {
    const before = this.#count
    const ancestors = new Set<unknown>()
    const open: { readonly parent: unknown; readonly items: readonly unknown[]; next: number }[] = []
    let value = root
    for (;;) {
      this.#count++
      if (this.#count - before > partLimit) return 'part'
      if (this.#count > this.#limit) return 'total'
      if (typeof value === 'object' && value !== null) {
        if (ancestors.has(value)) return 'endless'
        ancestors.add(value)
        open.push({ parent: value, items: Array.isArray(value) ? value : Object.values(value), next: 0 })
      }
      let level = open.at(-1)
      while (level !== undefined && level.next === level.items.length) {
        ancestors.delete(level.parent)
        open.pop()
        level = open.at(-1)
      }
      if (level === undefined) return undefined
      value = level.items[level.next++]
    }
  }
}
