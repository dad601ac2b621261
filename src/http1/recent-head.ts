const LF = 0x0a
/** Every idle connection keeps one: longer heads are read each time. */
const MAX_LENGTH = 4096

/** The head that was read last, with what was read of it. Backends and clients often send the same again. */
export class RecentHead<Read> {
  /** Its blank line included. */
  #text = ''
  #read: Read | undefined
  /** Where another head was last found to differ: where heads carry a number of their own, the next one differs there, too. */
  #doubtAt = 0

  keep(text: string, read: Read): void {
    if (text.length > MAX_LENGTH) return
    this.#text = text
    this.#read = read
  }

  /** How many bytes it has. */
  get length(): number {
    return this.#text.length
  }

  /** Returns what was read of it if these bytes begin with it. A head that differs costs little more than a look at three bytes. */
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

/** The digits of a number that change most often are its last. */
function lastDifference(text: string, bytes: Buffer, from: number): number {
  let at = text.length - 1
  while (at > 0 && bytes[from + at] === text.charCodeAt(at)) at--
  return at
}
