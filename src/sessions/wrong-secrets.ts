import { createHash, randomBytes } from 'node:crypto'
import { parseAddress, subjectText } from '../text/address.ts'

const MINUTE_MS = 60_000

// A count-min sketch: each peer counts in one cell of every row, and the smallest of its cells is its count.
const ROWS = 4
/** As many as a byte of a digest can name. */
const COLUMNS = 256
const SALT_BYTES = 16

// A cell holds the minute that it counts for and, in its last bits, how many came in it.
const COUNT_BITS = 8
const MAX_COUNT = (1 << COUNT_BITS) - 1
const MINUTES = 1 << (32 - COUNT_BITS)

/**
 * How many wrong secrets each peer address has sent in this minute, in memory of a fixed size that all threads share. Peers may
 * share cells, so a count can be too high, but never too low: a flood from many addresses makes none of them forgotten.
 */
export class WrongSecrets {
  readonly #salt: Buffer
  readonly #cells: Int32Array

  constructor(buffer: SharedArrayBuffer) {
    this.#salt = Buffer.from(buffer, 0, SALT_BYTES)
    this.#cells = new Int32Array(buffer, SALT_BYTES)
  }

  /** Counts one more from this peer. Returns how many that makes in this minute, up to 255. */
  add(peerAddress: string | undefined, nowMs: number): number {
    const minute = Math.floor(nowMs / MINUTE_MS) % MINUTES
    // Salted, so that nobody can choose addresses that share cells with another's.
    const digest = createHash('sha256').update(this.#salt).update(groupOf(peerAddress)).digest()
    let count = MAX_COUNT
    for (let row = 0; row < ROWS; row++) {
      count = Math.min(count, this.#addTo(row * COLUMNS + digest[row]!, minute))
    }
    return count
  }

  #addTo(cell: number, minute: number): number {
    for (;;) {
      const word = Atomics.load(this.#cells, cell)
      const earlier = word >>> COUNT_BITS === minute ? word & MAX_COUNT : 0
      const count = Math.min(earlier + 1, MAX_COUNT)
      const next = (minute << COUNT_BITS) | count
      if (Atomics.compareExchange(this.#cells, cell, word, next) === word) return count
    }
  }
}

export function newWrongSecretsBuffer(): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(SALT_BYTES + ROWS * COLUMNS * 4)
  Buffer.from(buffer).set(randomBytes(SALT_BYTES))
  return buffer
}

/** IPv6 is grouped to /64: whoever has one address of a network usually has them all. */
function groupOf(peerAddress: string | undefined): string {
  const address = peerAddress === undefined ? undefined : parseAddress(peerAddress)
  return address === undefined ? '' : subjectText(address)
}
