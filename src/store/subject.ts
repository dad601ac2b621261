/**
 * The subject of a charge as 32-bit words for a hash: the counter's identity, then the descriptor values. No two subjects give the same
 * words, because each part starts with its length. One object is used for many charges.
 */
export class SubjectWords {
  /** Only the first `length` are valid. */
  words = new Int32Array(64)
  length = 0

  clear(): void {
    this.length = 0
  }

  addWord(word: number): void {
    if (this.length === this.words.length) this.#growBy(1)
    this.words[this.length++] = word
  }

  addWords(words: Int32Array): void {
    if (this.length + words.length > this.words.length) this.#growBy(words.length)
    this.words.set(words, this.length)
    this.length += words.length
  }

  /** Its length, then its UTF-16 code units, two per word. */
  addText(text: string): void {
    const characters = text.length
    if (this.length + characters + 1 > this.words.length) this.#growBy(characters + 1)
    const { words } = this
    let at = this.length
    words[at++] = characters
    let i = 0
    for (; i + 1 < characters; i += 2) words[at++] = (text.charCodeAt(i) << 16) | text.charCodeAt(i + 1)
    if (i < characters) words[at++] = text.charCodeAt(i)
    this.length = at
  }

  /** Starts with the number of its texts, so that no value can be mistaken for a part of it. */
  addIdentity(identity: readonly string[]): void {
    this.addWord(identity.length)
    for (const text of identity) this.addText(text)
  }

  #growBy(words: number): void {
    const grown = new Int32Array((this.length + words) * 2)
    grown.set(this.words)
    this.words = grown
  }
}
