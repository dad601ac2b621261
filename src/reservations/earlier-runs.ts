import { type IssuedHour, markBit } from './reservation-numbers.ts'

const HOUR_MS = 60 * 60 * 1000
/** Reservations of older hours have expired. */
const KEPT_HOURS = 3
const RUN_DIGITS = 16
const HEAD_BYTES = 32

/**
 * What processes before this one issued, as a state file keeps it, one block after the other:
 *
 *     block   run (8 bytes) | worker (u32) | hour (u32) | count (u32) | 0 (u32) | when it was saved, wall ms (f64) | a bit for each number, in whole 8 bytes
 *
 * In memory that all threads share.
 */
export class EarlierRuns {
  readonly #words: Int32Array
  readonly #bytes: Buffer
  readonly #blocks = new Map<string, Block>()

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer)
    this.#bytes = Buffer.from(buffer)
    for (let at = 0; at + HEAD_BYTES <= this.#bytes.length; ) {
      const block = readBlock(this.#bytes, at)
      this.#blocks.set(nameOf(block), block)
      at += blockBytes(block.count)
    }
  }

  /** When the counters were saved that this reservation is part of; undefined: they were not, or it is not known. */
  savedMs(run: string, worker: number, hour: number): number | undefined {
    return this.#blocks.get(nameOf({ run, worker, hour }))?.savedMs
  }

  mark(run: string, worker: number, hour: number, number: number): 'marked' | 'already' | 'lost' {
    const block = this.#blocks.get(nameOf({ run, worker, hour }))
    if (block === undefined || number >= block.count) return 'lost'
    return markBit(this.#words, (block.at + HEAD_BYTES) / 4, number)
  }

  /** The blocks to be saved again. */
  *saved(wallMs: number): Generator<Buffer> {
    for (const block of this.#blocks.values()) {
      if (isKept(block, wallMs)) yield Buffer.from(this.#bytes.subarray(block.at, block.at + blockBytes(block.count)))
    }
  }
}

/** The block of an hour that this process issued. */
export function encodeBlock(run: string, { worker, hour, count, bits }: IssuedHour, savedMs: number): Buffer {
  const block = Buffer.alloc(blockBytes(count))
  block.write(run, 'hex')
  block.writeUInt32LE(worker, 8)
  block.writeUInt32LE(hour, 12)
  block.writeUInt32LE(count, 16)
  block.writeDoubleLE(savedMs, 24)
  block.set(bits, HEAD_BYTES)
  return block
}

/** In shared memory, for all threads. Blocks that are damaged or have expired are left out. */
export function newEarlierBuffer(blocks: readonly Buffer[], wallMs: number): SharedArrayBuffer {
  const kept = blocks.filter((block) => isWhole(block) && isKept(readBlock(block, 0), wallMs))
  const buffer = new SharedArrayBuffer(kept.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const block of kept) {
    Buffer.from(buffer).set(block, at)
    at += block.length
  }
  return buffer
}

interface Block {
  readonly at: number
  readonly run: string
  readonly worker: number
  readonly hour: number
  readonly count: number
  readonly savedMs: number
}

function readBlock(bytes: Buffer, at: number): Block {
  return {
    at,
    run: bytes.toString('hex', at, at + RUN_DIGITS / 2),
    worker: bytes.readUInt32LE(at + 8),
    hour: bytes.readUInt32LE(at + 12),
    count: bytes.readUInt32LE(at + 16),
    savedMs: bytes.readDoubleLE(at + 24),
  }
}

function isWhole(block: Buffer): boolean {
  return block.length >= HEAD_BYTES && block.length === blockBytes(block.readUInt32LE(16))
}

/** Hours may be ahead of the clock's: nothing was issued after the block was saved. */
function isKept({ hour, savedMs }: Block, wallMs: number): boolean {
  return isKeptHour(Math.min(hour, savedMs / HOUR_MS), wallMs)
}

export function isKeptHour(hour: number, wallMs: number): boolean {
  return hour > wallMs / HOUR_MS - 1 - KEPT_HOURS
}

function blockBytes(count: number): number {
  return HEAD_BYTES + Math.ceil(count / 64) * 8
}

function nameOf({ run, worker, hour }: Pick<Block, 'run' | 'worker' | 'hour'>): string {
  return `${run} ${worker} ${hour}`
}
