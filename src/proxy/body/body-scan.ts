import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, constants as zlib } from 'node:zlib'
import type { BodyWork, WorkSlices } from './work-slices.ts'

/** Who takes a body's decoded bytes, piece by piece. */
export interface BodyScanReader {
  push(bytes: Uint8Array, from: number, to: number): void
  /** It will read no further. */
  readonly isBeyondLimits: boolean
}

/** How reading ended: with the last byte, with more of them or of what is in them than may be read, or with bytes that do not decode. */
export type ScanOutcome = 'read' | 'too_large' | 'damaged'

export interface BodyScanOptions {
  readonly coding: Coding
  /** Of the decoded body. */
  readonly maxBytes: number
  readonly slices: WorkSlices
  /** What is written is the caller's again when `write` returns: what must wait is copied. */
  readonly isBorrowed: boolean
  /** What was written has been read, after `write` said to wait. */
  readonly onDrain?: () => void
  /** Our own code failed; the body may be fine. */
  readonly onBroken: (error: unknown) => void
}

/** Decodes a body and has it read while it comes, a slice at a time. Holds what was written and not yet read, and nothing else. */
export class BodyScan implements BodyWork {
  readonly #reader: BodyScanReader
  readonly #options: BodyScanOptions
  readonly #decoder: Transform | undefined
  /** Decoded bytes that wait to be read, the first of them from #at on. */
  #waiting: Buffer[] = []
  #at = 0
  #bytes = 0
  #isQueued = false
  /** The decoder, or who writes without one, will bring no more. */
  #isComplete = false
  #hasToWait = false
  #outcome: ScanOutcome | undefined
  #onEnd: ((outcome: ScanOutcome) => void) | undefined

  constructor(reader: BodyScanReader, options: BodyScanOptions) {
    this.#reader = reader
    this.#options = options
    if (options.coding !== 'identity') this.#decoder = this.#newDecoder(options.coding)
  }

  /** Returns false when it is time to wait for onDrain. */
  write(chunk: Buffer): boolean {
    if (this.#outcome !== undefined || this.#isComplete) return true
    const hasRoom = this.#decoder === undefined ? this.#readOrKeep(chunk) : this.#decoder.write(this.#keepable(chunk))
    this.#hasToWait = !hasRoom
    return hasRoom
  }

  /** All of it was written. Calls back when it is read, at once where that is so already. */
  end(onEnd: (outcome: ScanOutcome) => void): void {
    this.#onEnd = onEnd
    if (this.#outcome !== undefined) return this.#finish(this.#outcome)
    if (this.#decoder === undefined) this.#isComplete = true
    else this.#decoder.end()
    this.#finishIfRead()
  }

  /** Reads at once what was written without a coding. */
  readWaiting(): void {
    while (this.step());
  }

  /** Nobody wants to know any more. */
  drop(): void {
    this.#onEnd = undefined
    this.#stop('damaged')
  }

  step(): boolean {
    this.#guard(() => this.#read())
    if (this.#waiting.length > 0) return true
    this.#isQueued = false
    return false
  }

  /** Returns whether it was read at once. */
  #readOrKeep(chunk: Buffer): boolean {
    this.#take(chunk)
    const last = this.#waiting.length - 1
    if (this.#waiting[last] === chunk) this.#waiting[last] = this.#keepable(chunk)
    return last < 0
  }

  #keepable(chunk: Buffer): Buffer {
    return this.#options.isBorrowed ? Buffer.from(chunk) : chunk
  }

  #read(): void {
    const chunk = this.#waiting[0]
    if (chunk === undefined) return
    const to = Math.min(chunk.length, this.#at + STEP_BYTES)
    this.#reader.push(chunk, this.#at, to)
    this.#at = to
    if (this.#reader.isBeyondLimits) return this.#stop('too_large')
    if (to < chunk.length) return
    this.#waiting.shift()
    this.#at = 0
    if (this.#waiting.length === 0) this.#goOn()
  }

  /** All that was there is read. */
  #goOn(): void {
    if (this.#isComplete) return this.#finishIfRead()
    this.#decoder?.resume()
    if (this.#decoder === undefined && this.#hasToWait) this.#drain()
  }

  #take(decoded: Buffer): void {
    if (this.#outcome !== undefined) return
    this.#bytes += decoded.length
    if (this.#bytes > this.#options.maxBytes) return this.#stop('too_large')
    this.#waiting.push(decoded)
    if (this.#isQueued) return
    this.#isQueued = true
    this.#options.slices.add(this)
  }

  #newDecoder(coding: Exclude<Coding, 'identity'>): Transform {
    const decoder = newDecoder(coding)
    decoder.on('data', (decoded: Buffer) => {
      this.#guard(() => this.#take(decoded))
      if (this.#waiting.length > 0) decoder.pause()
    })
    decoder.on('drain', () => this.#guard(() => this.#drain()))
    // Some codings have an end of their own: what comes behind it belongs to nobody.
    decoder.on('end', () => {
      this.#isComplete = true
      this.#guard(() => {
        this.#drain()
        this.#finishIfRead()
      })
    })
    decoder.on('error', () => this.#guard(() => this.#stop('damaged')))
    return decoder
  }

  /** A throw in a turn of its own would end the worker. */
  #guard(act: () => void): void {
    try {
      act()
    } catch (error) {
      this.drop()
      this.#options.onBroken(error)
    }
  }

  #drain(): void {
    if (!this.#hasToWait) return
    this.#hasToWait = false
    this.#options.onDrain?.()
  }

  #finishIfRead(): void {
    if (this.#isComplete && this.#waiting.length === 0 && this.#outcome === undefined) this.#finish('read')
  }

  #stop(outcome: ScanOutcome): void {
    if (this.#outcome !== undefined) return
    this.#waiting = []
    this.#at = 0
    this.#decoder?.destroy()
    this.#finish(outcome)
    this.#drain()
  }

  #finish(outcome: ScanOutcome): void {
    this.#outcome = outcome
    const onEnd = this.#onEnd
    this.#onEnd = undefined
    onEnd?.(outcome)
  }
}

/** At the slowest, with nothing but brackets, a few tenths of a millisecond. */
const STEP_BYTES = 16 * 1024

export type Coding = 'identity' | 'gzip' | 'deflate' | 'br'

/** The one coding that a Content-Encoding names, or undefined when we cannot read it. */
export function codingOf(contentEncoding: string | undefined): Coding | undefined {
  const name = contentEncoding?.trim().toLowerCase()
  if (name === undefined || name === '' || name === 'identity') return 'identity'
  if (name === 'x-gzip') return 'gzip'
  return name === 'gzip' || name === 'deflate' || name === 'br' ? name : undefined
}

/** Decodes a body while it comes, and gives out what it has at once. */
export function newDecoder(coding: Exclude<Coding, 'identity'>): Transform {
  if (coding === 'br') return createBrotliDecompress({ flush: zlib.BROTLI_OPERATION_FLUSH })
  const options = { flush: zlib.Z_SYNC_FLUSH }
  return coding === 'gzip' ? createGunzip(options) : createInflate(options)
}

/** How much of what it has decoded a Brotli decoder keeps: the body's first byte says so (RFC 7932 9.1), and 14 bytes can fill 16 MiB. */
export function brotliWindowBytes(bytes: Buffer): number {
  const first = bytes[0] ?? 0
  const large = (first >> 1) & 7
  return 2 ** ((first & 1) === 1 && large > 0 ? 17 + large : 17)
}
