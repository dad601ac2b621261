import type { WordSink } from './subject.ts'

/** A hash in progress: four 32-bit words. */
export type HashState = readonly [number, number, number, number]

/**
 * HalfSipHash-1-3 with 64 bits of output, over whole 32-bit words: keyed, so that callers cannot choose which
 * counters collide, and made of 32-bit additions, rotations and xors, which is what JavaScript is good at.
 * The state after a common beginning can be saved and taken up again.
 */
export class HalfSipHash implements WordSink {
  low = 0
  high = 0
  #v0 = 0
  #v1 = 0
  #v2 = 0
  #v3 = 0
  #wordCount = 0
  readonly #start: HashState

  constructor(key: readonly [number, number]) {
    const [k0, k1] = key
    this.#start = [k0 | 0, (k1 ^ 0xee) | 0, (k0 ^ 0x6c796765) | 0, (k1 ^ 0x74656462) | 0]
    this.begin()
  }

  begin(state: HashState = this.#start, wordCount = 0): void {
    this.#v0 = state[0]
    this.#v1 = state[1]
    this.#v2 = state[2]
    this.#v3 = state[3]
    this.#wordCount = wordCount
  }

  save(): HashState {
    return [this.#v0, this.#v1, this.#v2, this.#v3]
  }

  get wordCount(): number {
    return this.#wordCount
  }

  word(word: number): void {
    let v0 = this.#v0
    let v1 = this.#v1
    let v2 = this.#v2
    let v3 = this.#v3 ^ word
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
    this.#v0 = v0 ^ word
    this.#v1 = v1
    this.#v2 = v2
    this.#v3 = v3
    this.#wordCount++
  }

  /** Leaves the 64 bits in `low` and `high`. */
  finish(): void {
    this.word(this.#wordCount << 26) // the length in bytes, in the top byte, as the standard has it
    this.#v2 ^= 0xee
    this.low = this.#stir()
    this.#v1 ^= 0xdd
    this.high = this.#stir()
  }

  /** Three rounds; one that takes in a zero is a round and nothing else. */
  #stir(): number {
    this.word(0)
    this.word(0)
    this.word(0)
    return this.#v1 ^ this.#v3
  }
}
