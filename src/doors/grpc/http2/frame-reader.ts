/** Returned by `read` for bytes that are not HTTP/2. */
export const BAD_PREFACE = -1

/** Receives a whole frame, whose payload is `bytes` from `from` to `to` and may change after the call. Returns the error that ends the connection. */
export type OnFrame = (type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number) => number

const NO_BYTES = Buffer.alloc(0)

/** Splits what a client sends into frames. */
export class FrameReader {
  readonly #onFrame: OnFrame
  #prefaceBytes = 0
  /** The frame that has arrived only in part. The buffer has the frame's full size as soon as its head is known. */
  #partial = NO_BYTES
  #partialBytes = 0

  constructor(onFrame: OnFrame) {
    this.#onFrame = onFrame
  }

  get hasPreface(): boolean {
    return this.#prefaceBytes === PREFACE.length
  }

  /** Whether a frame has arrived only in part. */
  get isInFrame(): boolean {
    return this.#partialBytes > 0
  }

  /** Returns the error that ends the connection, or NO_ERROR. */
  read(chunk: Buffer, length: number): number {
    let at = 0
    while (this.#prefaceBytes < PREFACE.length && at < length) if (chunk[at++] !== PREFACE[this.#prefaceBytes++]) return BAD_PREFACE
    while (at < length) {
      if (this.#partialBytes > 0 || length - at < FRAME_HEAD_BYTES) {
        at = this.#complete(chunk, at, length)
        if (frameBytes(this.#partial, 0) > MAX_FRAME_BYTES + FRAME_HEAD_BYTES) return FRAME_SIZE_ERROR
        if (!this.#isComplete()) continue
        const partial = this.#partial
        this.#partial = NO_BYTES
        this.#partialBytes = 0
        const error = this.#take(partial, 0, partial.length)
        if (error !== NO_ERROR) return error
        continue
      }
      const end = at + frameBytes(chunk, at)
      if (end - at > MAX_FRAME_BYTES + FRAME_HEAD_BYTES) return FRAME_SIZE_ERROR
      if (end > length) {
        at = this.#complete(chunk, at, length)
        continue
      }
      const error = this.#take(chunk, at, end)
      if (error !== NO_ERROR) return error
      at = end
    }
    return NO_ERROR
  }

  #take(bytes: Buffer, at: number, end: number): number {
    const id = ((bytes[at + 5]! & 0x7f) << 24) | (bytes[at + 6]! << 16) | (bytes[at + 7]! << 8) | bytes[at + 8]!
    return this.#onFrame(bytes[at + 3]!, bytes[at + 4]!, id, bytes, at + FRAME_HEAD_BYTES, end)
  }

  #isComplete(): boolean {
    return this.#partial.length > FRAME_HEAD_BYTES || this.#partialBytes === FRAME_HEAD_BYTES
      ? this.#partialBytes === frameBytes(this.#partial, 0)
      : false
  }

  /** Adds to the partial frame: first its head, then its payload, in a buffer of the frame's size. Returns how far `chunk` was read. */
  #complete(chunk: Buffer, at: number, length: number): number {
    if (this.#partialBytes === 0) this.#partial = Buffer.alloc(FRAME_HEAD_BYTES)
    const from = this.#fill(chunk, at, length)
    if (this.#partialBytes !== FRAME_HEAD_BYTES || this.#partial.length > FRAME_HEAD_BYTES) return from
    const bytes = frameBytes(this.#partial, 0)
    if (bytes === FRAME_HEAD_BYTES || bytes > MAX_FRAME_BYTES + FRAME_HEAD_BYTES) return from
    const whole = Buffer.allocUnsafeSlow(bytes)
    this.#partial.copy(whole)
    this.#partial = whole
    return this.#fill(chunk, from, length)
  }

  #fill(chunk: Buffer, at: number, length: number): number {
    const end = Math.min(length, at + this.#partial.length - this.#partialBytes)
    chunk.copy(this.#partial, this.#partialBytes, at, end)
    this.#partialBytes += end - at
    return end
  }
}

/** Returns the length of a frame, including its head. */
function frameBytes(bytes: Buffer, at: number): number {
  return FRAME_HEAD_BYTES + ((bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!)
}

/** RFC 9113 6: frame types. */
export const DATA = 0
export const HEADERS = 1
export const PRIORITY = 2
export const RST_STREAM = 3
export const SETTINGS_FRAME = 4
export const PUSH_PROMISE = 5
export const PING = 6
export const GOAWAY = 7
export const WINDOW_UPDATE = 8
export const CONTINUATION = 9

/** RFC 9113 6: flags of frames. */
export const END_STREAM = 0x1
export const ACK = 0x1
export const END_HEADERS = 0x4
export const PADDED = 0x8
export const HAS_PRIORITY = 0x20

/** RFC 9113 7: error codes. */
export const NO_ERROR = 0
export const PROTOCOL_ERROR = 1
export const FLOW_CONTROL_ERROR = 3
export const STREAM_CLOSED = 5
export const FRAME_SIZE_ERROR = 6
export const REFUSED_STREAM = 7
export const CANCEL = 8
export const COMPRESSION_ERROR = 9
export const ENHANCE_YOUR_CALM = 11

export const FRAME_HEAD_BYTES = 9
/** Default of SETTINGS_MAX_FRAME_SIZE. We never announce a larger one, and never send larger frames, whatever the client accepts. */
export const MAX_FRAME_BYTES = 16_384

export const DEFAULT_WINDOW = 65_535
export const MAX_WINDOW = 2 ** 31 - 1
export const MAX_STREAM_ID = 2 ** 31 - 1

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
