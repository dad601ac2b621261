import { newWrongSecretsBuffer } from '../../sessions/wrong-secrets.ts'

/**
 * The issued keys, in memory that all threads share. The main thread writes, and workers read without locks: a record never changes while the index leads to
 * it. A key that changes gets a new record, and the index is switched to that with one store. The first word of a record is its generation, which rises as soon as
 * the index no longer leads there: whoever finds the same generation after reading a record has read one key, whole. Every access of a worker, and every
 * write that a worker may see, is atomic, because JavaScript orders no others.
 *
 * All buffers have the size for the most keys that are allowed. The operating system provides memory only for what has been written to.
 */
export interface KeyMemory {
  /** `INDEX_STATE` and `IS_LOADED`. */
  readonly header: SharedArrayBuffer
  /** Two indexes, each with a place for every record; one of them is in use, and the other is filled when the first has become too small. */
  readonly index: SharedArrayBuffer
  readonly records: SharedArrayBuffer
  /** Label sets, and who created or changed keys and why, as JSON; each text once. */
  readonly texts: SharedArrayBuffer
  /** Unknown keys by client address, see `WrongSecrets`. */
  readonly guesses: SharedArrayBuffer
}

/** Words of the header. */
export const INDEX_STATE = 0
export const IS_LOADED = 1
const HEADER_WORDS = 2

// The state of the index: the logarithm of its size, which of the two it is, and a number that rises with every switch.
export const SIZE_BITS = 5
export const SIZE_MASK = (1 << SIZE_BITS) - 1
export const HALF_BIT = 1 << SIZE_BITS
export const SWITCH = HALF_BIT << 1

/** Places of the index hold the number of a record plus one. */
export const FREE = 0
/** A key was here. Searches go on after it. */
export const GONE = -1

/** Words of a record. Times are the bits of a 64-bit float. */
export const GENERATION = 0
/** Place of the text with the labels. */
export const LABELS = 1
/** Infinity if the key never expires. */
export const EXPIRES = 2
/** The upper 16 bits of the id, and REVOKED_BIT. */
export const ID_HIGH = 4
export const ID_LOW = 5
/** Unix time in seconds. */
export const CREATED_S = 6
/** Place of the text with the actor and the reason. */
export const CREATION = 7
export const DIGEST = 8
export const MOMENT = 16
/** Place of the text with who changed it and why; 0 if nobody did. */
export const EDIT = 18
export const RECORD_WORDS = 19

export const DIGEST_WORDS = 8
export const REVOKED_BIT = 1 << 16

/** Words of a text, before its bytes. */
export const TEXT_USERS = 0
/** A number that no other text of this process has. */
export const TEXT_NUMBER = 1
export const TEXT_BYTES = 2
/** Words of the whole, which may be more than it needs. */
export const TEXT_ROOM = 3
export const TEXT_HEAD_WORDS = 4

/** Room for the texts of a key, if no other key has the same; and for any number of keys at least MIN_TEXT_BYTES. */
const TEXT_BYTES_PER_KEY = 96
const MIN_TEXT_BYTES = 4 * 1024 * 1024
/** Records beyond the most keys: a key that changes has two until the change is durable, and this many may change at once. */
export const SPARE_RECORDS = 1024

export function newKeyMemory(maxKeys: number): KeyMemory {
  const records = maxKeys + SPARE_RECORDS
  const header = new SharedArrayBuffer(HEADER_WORDS * 4)
  new Int32Array(header)[INDEX_STATE] = indexBits(1)
  return {
    header,
    index: new SharedArrayBuffer(2 * 4 * 2 ** indexBits(records)),
    records: new SharedArrayBuffer(records * RECORD_WORDS * 4),
    texts: new SharedArrayBuffer(Math.max(MIN_TEXT_BYTES, records * TEXT_BYTES_PER_KEY)),
    guesses: newWrongSecretsBuffer(),
  }
}

/** The logarithm of the size of an index for this many keys: at most half of its places are taken, so that searches are short. */
export function indexBits(keys: number): number {
  return Math.max(4, Math.ceil(Math.log2(keys * 2)))
}

/** Reads and writes 64-bit floats as two words. */
const floats = new Float64Array(1)
const halves = new Int32Array(floats.buffer)

export function loadFloat(words: Int32Array, at: number): number {
  halves[0] = Atomics.load(words, at)
  halves[1] = Atomics.load(words, at + 1)
  return floats[0]!
}

export function storeFloat(words: Int32Array, at: number, value: number): void {
  floats[0] = value
  Atomics.store(words, at, halves[0]!)
  Atomics.store(words, at + 1, halves[1]!)
}
