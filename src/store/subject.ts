/**
 * The subject of a charge as 32-bit words for a hash: the counter's identity, then the descriptor values. No two subjects give the same
 * words, because each part starts with its length. The object is reused across charges.
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

  /** Adds the text's length, then its UTF-16 code units, two per word. */
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

  /** Adds the number of texts first, so that no value can be mistaken for a part of the identity. */
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

/** A hash in progress: four 32-bit words, and how many words were hashed. */
export type HashState = readonly [v0: number, v1: number, v2: number, v3: number, wordCount: number]

/** Rounds that end a hash: one for the length, three for each half of the result. */
const FINAL_ROUNDS = 7

/**
 * HalfSipHash-1-3 with 64 bits of output, over whole 32-bit words. It is keyed, so that callers cannot choose which counters collide, and
 * made of 32-bit additions, rotations and xors, which are fast in JavaScript. The state after a common prefix can be kept and continued
 * from.
 */
export class HalfSipHash {
  low = 0
  high = 0
  readonly #start: HashState
  #state: HashState

  constructor(key: readonly [number, number]) {
    const [k0, k1] = key
    this.#start = [k0 | 0, (k1 ^ 0xee) | 0, (k0 ^ 0x6c796765) | 0, (k1 ^ 0x74656462) | 0, 0]
    this.#state = this.#start
  }

  /** Returns the state after the first `count` words. */
  absorb(words: Int32Array, count: number, from = this.#start): HashState {
    this.#mix(words, count, from, false)
    return this.#state
  }

  /** Leaves the 64 bits in `low` and `high`. */
  digest(words: Int32Array, count: number, from = this.#start): void {
    this.#mix(words, count, from, true)
  }

  /** Keeps the state in local variables of one function, and so contains the round twice: hashing is the largest part of most decisions. */
  #mix(words: Int32Array, count: number, from: HashState, isLast: boolean): void {
    let v0 = from[0]
    let v1 = from[1]
    let v2 = from[2]
    let v3 = from[3]
    const wordCount = from[4] + count
    for (let i = 0; i < count; i++) {
      const word = words[i]!
      v3 ^= word
      v0 = (v0 + v1) | 0
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
      v0 = (v0 << 16) | (v0 >>> 16)
      v2 = (v2 + v3) | 0
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
      v0 = (v0 + v3) | 0
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
      v2 = (v2 + v1) | 0
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
      v2 = (v2 << 16) | (v2 >>> 16)
      v0 ^= word
    }
    if (!isLast) {
      this.#state = [v0, v1, v2, v3, wordCount]
      return
    }
    // In the standard, the last block has the length in bytes in its top byte; the rounds after it have no input.
    let word = wordCount << 26
    for (let i = 0; i < FINAL_ROUNDS; i++) {
      if (i === 1) v2 ^= 0xee
      else if (i === 4) {
        this.low = v1 ^ v3
        v1 ^= 0xdd
      }
      v3 ^= word
      v0 = (v0 + v1) | 0
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
      v0 = (v0 << 16) | (v0 >>> 16)
      v2 = (v2 + v3) | 0
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
      v0 = (v0 + v3) | 0
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
      v2 = (v2 + v1) | 0
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
      v2 = (v2 << 16) | (v2 >>> 16)
      v0 ^= word
      word = 0
    }
    this.high = v1 ^ v3
  }
}
