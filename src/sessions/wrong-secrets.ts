import { createHash, randomBytes } from 'node:crypto'
import { parseAddress, subjectText } from '../text/address.ts'

const MINUTE_MS = 60_000

// This is a count-min sketch: each peer is counted in one cell of every row, and its count is the smallest of those cells.
const ROWS = 4
/** One byte of a digest selects a column. */
const COLUMNS = 256
const SALT_BYTES = 16

// A cell holds a minute and, in its low bits, the number of wrong secrets in that minute.
const COUNT_BITS = 8
const MAX_COUNT = (1 << COUNT_BITS) - 1
const MINUTES = 1 << (32 - COUNT_BITS)

/**
 * Counts the wrong secrets that each peer address has sent in the current minute, in fixed-size memory shared by all threads. Peers may share cells, so a
 * count can be too high but never too low: a flood from many addresses cannot make any of them forgotten.
 */
export class WrongSecrets {
  readonly #salt: Buffer
  readonly #cells: Int32Array

  constructor(buffer: SharedArrayBuffer) {
    this.#salt = Buffer.from(buffer, 0, SALT_BYTES)
    this.#cells = new Int32Array(buffer, SALT_BYTES)
  }

  /** Counts one more from this peer and returns its count for this minute, at most 255. */
  add(peerAddress: string | undefined, nowMs: number): number {
    const minute = Math.floor(nowMs / MINUTE_MS) % MINUTES
    // The digest is salted, so that nobody can choose addresses that share cells with someone else's.
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

/** IPv6 addresses are grouped by /64, because whoever has one address of such a network usually has all of them. */
function groupOf(peerAddress: string | undefined): string {
  const address = peerAddress === undefined ? undefined : parseAddress(peerAddress)
  return address === undefined ? '' : subjectText(address)
}
