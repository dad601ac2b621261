import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, constants as zlib } from 'node:zlib'
import type { WorkInSteps, WorkSlices } from '../../time/slices.ts'

/** Receives a body's decoded bytes, piece by piece. */
export interface BodyScanReader {
  push(bytes: Uint8Array, from: number, to: number): void
  /** The reader has reached a limit and will read no further. */
  readonly isBeyondLimits: boolean
}

/** How reading ended: with the last byte, because the bytes or their content exceed a limit, or because the bytes do not decode. */
export type ScanOutcome = 'read' | 'too_large' | 'damaged'

export interface BodyScanOptions {
  readonly coding: Coding
  /** Limit for the decoded body. */
  readonly maxBytes: number
  readonly slices: WorkSlices
  /** The caller reuses the bytes as soon as `write` returns, so those that must wait are copied. */
  readonly isBorrowed: boolean
  /** Called when the written bytes have been read, after `write` returned false. */
  readonly onDrain?: () => void
  /** Called when our own code threw an error; the body may be fine. */
  readonly onBroken: (error: unknown) => void
}

/** Reads the whole of a body. Returns a promise only if it is decoded, or has to wait for a slice. An error of our own code is thrown. */
export function scanAll(
  reader: BodyScanReader,
  bytes: Buffer,
  options: Omit<BodyScanOptions, 'onDrain' | 'onBroken'>,
): ScanOutcome | Promise<ScanOutcome> {
  let done: ScanOutcome | undefined
  let broken: { readonly error: unknown } | undefined
  let onEnd = (outcome: ScanOutcome): void => {
    done = outcome
  }
  let onBroken = (error: unknown): void => {
    broken = { error }
  }
  const { coding, maxBytes, slices, isBorrowed } = options
  const scan = new BodyScan(reader, { coding, maxBytes, slices, isBorrowed, onBroken: (error) => onBroken(error) })
  if (bytes.length > 0) scan.write(bytes)
  scan.end((outcome) => onEnd(outcome))
  if (broken !== undefined) throw broken.error
  if (done !== undefined) return done
  return new Promise((resolve, reject) => {
    onEnd = resolve
    onBroken = reject
  })
}

/** Decodes a body as it arrives and passes it to a reader, a slice at a time. It holds only the bytes that were written and not read yet. */
export class BodyScan implements WorkInSteps {
  readonly #reader: BodyScanReader
  readonly #options: BodyScanOptions
  readonly #decoder: Transform | undefined
  /** Decoded bytes that wait to be read; the first buffer was read up to #at. */
  #waiting: Buffer[] = []
  #at = 0
  #bytes = 0
  #isQueued = false
  /** No more decoded bytes will come. */
  #isComplete = false
  #hasToWait = false
  #outcome: ScanOutcome | undefined
  #onEnd: ((outcome: ScanOutcome) => void) | undefined

  constructor(reader: BodyScanReader, options: BodyScanOptions) {
    this.#reader = reader
    this.#options = options
    if (options.coding !== 'identity') this.#decoder = this.#newDecoder(options.coding)
  }

  /** Returns false if the caller should wait for onDrain. */
  write(chunk: Buffer): boolean {
    if (this.#outcome !== undefined || this.#isComplete) return true
    const hasRoom = this.#decoder === undefined ? this.#readOrKeep(chunk) : this.#decoder.write(this.#keepable(chunk))
    this.#hasToWait = !hasRoom
    return hasRoom
  }

  /** To be called when the whole body was written. Calls back when it has been read, which may be at once. */
  end(onEnd: (outcome: ScanOutcome) => void): void {
    this.#onEnd = onEnd
    if (this.#outcome !== undefined) return this.#finish(this.#outcome)
    if (this.#decoder === undefined) this.#isComplete = true
    else this.#decoder.end()
    this.#finishIfRead()
  }

  /** Reads what was written of a body that breaks off. Calls back when that is read, at once if it needs no decoding; never if `end` was called before that. */
  readRest(onRead: () => void): void {
    const decoder = this.#decoder
    if (decoder === undefined || this.#outcome !== undefined || this.#isComplete) {
      this.#readWaiting()
      return onRead()
    }
    if (decoder.writableEnded) return
    this.#onEnd = () => onRead()
    // An empty chunk is decoded behind all others.
    decoder.write(NOTHING, () => {
      if (this.#outcome !== undefined) return
      this.#guard(() => {
        while (decoder.read() !== null);
        this.#readWaiting()
        this.#stop('damaged')
      })
    })
  }

  #readWaiting(): void {
    while (this.step());
  }

  /** Stops reading, and does not report an outcome. */
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

  /** Returns whether the chunk was read at once, as most are. */
  #readOrKeep(chunk: Buffer): boolean {
    if (this.#waiting.length === 0 && chunk.length <= STEP_BYTES && this.#options.slices.doNow(() => this.#readNow(chunk))) return true
    this.#take(chunk)
    if (this.#waiting.length === 0) return true
    const last = this.#waiting.length - 1
    if (this.#waiting[last] === chunk) this.#waiting[last] = this.#keepable(chunk)
    return false
  }

  #readNow(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > this.#options.maxBytes) return this.#stop('too_large')
    this.#guard(() => this.#reader.push(chunk, 0, chunk.length))
    if (this.#reader.isBeyondLimits) this.#stop('too_large')
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

  /** To be called when all waiting bytes have been read. */
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
    // Some codings mark their own end; bytes after it are ignored.
    decoder.on('end', () => {
      this.#isComplete = true
      this.#guard(() => {
        this.#drain()
        this.#finishIfRead()
      })
    })
    decoder.on('error', () => {
      this.#readWaiting()
      this.#guard(() => this.#stop('damaged'))
    })
    return decoder
  }

  /** An error that escapes an event or a slice would end the worker. */
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

/** Even the slowest input, nothing but brackets, takes only a few tenths of a millisecond per step. */
const STEP_BYTES = 16 * 1024
const NOTHING = Buffer.alloc(0)

export type Coding = 'identity' | 'gzip' | 'deflate' | 'br'

/** Returns the one coding that Content-Encoding names, or undefined if we cannot decode it. */
export function codingOf(contentEncoding: string | undefined): Coding | undefined {
  const name = contentEncoding?.trim().toLowerCase()
  if (name === undefined || name === '' || name === 'identity') return 'identity'
  if (name === 'x-gzip') return 'gzip'
  return name === 'gzip' || name === 'deflate' || name === 'br' ? name : undefined
}

/** Returns a decoder that emits decoded bytes as soon as it has them. */
export function newDecoder(coding: Exclude<Coding, 'identity'>): Transform {
  if (coding === 'br') return createBrotliDecompress({ flush: zlib.BROTLI_OPERATION_FLUSH })
  const options = { flush: zlib.Z_SYNC_FLUSH }
  return coding === 'gzip' ? createGunzip(options) : createInflate(options)
}

/** Returns an upper bound for the window that a Brotli decoder keeps. It follows from the body's first byte (RFC 7932 9.1), and 14 bytes can fill 16 MiB. */
export function brotliWindowBytes(bytes: Buffer): number {
  const first = bytes[0] ?? 0
  const large = (first >> 1) & 7
  return 2 ** ((first & 1) === 1 && large > 0 ? 17 + large : 17)
}
