const LF = 0x0a

/** Longest head that is kept, since every idle connection keeps one. Longer heads are read each time. */
const MAX_LENGTH = 4096

/** The last head, with the result of reading it. Backends and clients often send the same head again. */
export class RecentHead<Read> {
  /** The head, including its blank line. */
  #text = ''
  #read: Read | undefined
  /** Where another head last differed from this one. If heads contain a counter, the next one is likely to differ there, too. */
  #doubtAt = 0

  keep(text: string, read: Read): void {
    if (text.length > MAX_LENGTH) return
    this.#text = text
    this.#read = read
  }

  /** Length of the head in bytes. */
  get length(): number {
    return this.#text.length
  }

  /** Returns the result of reading the head if these bytes begin with it. For a different head, this usually costs a look at three bytes. */
  find(bytes: Buffer, from: number, end: number): Read | undefined {
    const text = this.#text
    const headEnd = from + text.length
    if (text === '' || headEnd > end || bytes[headEnd - 1] !== LF || bytes[headEnd - 3] !== LF) return undefined
    const doubtAt = this.#doubtAt
    if (doubtAt < text.length && bytes[from + doubtAt] !== text.charCodeAt(doubtAt)) return undefined
    if (bytes.toString('latin1', from, headEnd) === text) return this.#read
    this.#doubtAt = lastDifference(text, bytes, from)
    return undefined
  }
}

/** Searches from the end, since the last digits of a number change most often. */
function lastDifference(text: string, bytes: Buffer, from: number): number {
  let at = text.length - 1
  while (at > 0 && bytes[from + at] === text.charCodeAt(at)) at--
  return at
}
