import { isSameText } from '../../http1/characters.ts'

/** For each entry: where its name begins and ends, where its value begins and ends. */
const ENTRY_INTS = 4
const USUAL_ENTRIES = 32

/** What `find` returns when there is no further entry. */
export const NO_ENTRY = -1

/** The names and values of a message, as places in its bytes: nothing is copied before it is asked for. */
export class MessageEntries {
  #places = new Int32Array(USUAL_ENTRIES * ENTRY_INTS)
  /** How many integers of `#places` are in use. */
  #used = 0

  get isEmpty(): boolean {
    return this.#used === 0
  }

  add(nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): void {
    const entry = this.#used
    if (entry === this.#places.length) this.#grow()
    const places = this.#places
    places[entry] = nameAt
    places[entry + 1] = nameEnd
    places[entry + 2] = valueAt
    places[entry + 3] = valueEnd
    this.#used = entry + ENTRY_INTS
  }

  /** The next entry after `entry` with this name, which is in lower case; the entry's may be in any. Begin with NO_ENTRY. */
  find(bytes: Uint8Array, name: string, entry: number): number {
    const places = this.#places
    for (let next = after(entry); next < this.#used; next += ENTRY_INTS)
      if (places[next + 1]! - places[next]! === name.length && isSameText(bytes, places[next]!, name)) return next
    return NO_ENTRY
  }

  /** The same with a name of any characters, in its own case. */
  findExactly(bytes: Buffer, name: string, entry: number): number {
    const places = this.#places
    for (let next = after(entry); next < this.#used; next += ENTRY_INTS)
      if (bytes.toString('utf8', places[next], places[next + 1]) === name) return next
    return NO_ENTRY
  }

  valueAt(entry: number): number {
    return this.#places[entry + 2]!
  }

  valueEnd(entry: number): number {
    return this.#places[entry + 3]!
  }

  clear(): void {
    this.#used = 0
  }

  /** Keeps no more memory than usual messages need. */
  shrink(): void {
    this.#used = 0
    if (this.#places.length > USUAL_ENTRIES * ENTRY_INTS) this.#places = new Int32Array(USUAL_ENTRIES * ENTRY_INTS)
  }

  #grow(): void {
    const larger = new Int32Array(this.#places.length * 2)
    larger.set(this.#places)
    this.#places = larger
  }
}

function after(entry: number): number {
  return entry === NO_ENTRY ? 0 : entry + ENTRY_INTS
}
