import { encodePathText, normalizePath } from './path.ts'

/** Paths, each with everything below it. Finding one takes time by the segments of a request's path, not by how many there are. */
export class PathPrefixes {
  readonly #prefixes: ReadonlySet<string>
  /** Of the longest one: whatever a request adds behind that is not looked at. */
  readonly #maxLength: number

  /** Normalised here; a slash at the end means nothing. */
  constructor(paths: readonly string[]) {
    const prefixes = paths.map((path) => normalizePath(encodePathText(path)).replace(/\/$/, ''))
    this.#prefixes = new Set(prefixes)
    this.#maxLength = prefixes.reduce((longest, { length }) => Math.max(longest, length), 0)
  }

  /** The path is normalised. */
  cover(path: string): boolean {
    // The root's prefix is the empty text in front of the first slash.
    for (let slash = 0; slash >= 0 && slash <= this.#maxLength; slash = path.indexOf('/', slash + 1)) {
      if (this.#prefixes.has(path.slice(0, slash))) return true
    }
    return path.length <= this.#maxLength && this.#prefixes.has(path)
  }
}
