import type { Socket } from 'node:net'
import { GrowingBuffer } from '../../../memory/growing-buffer.ts'
import type { PartialMessages } from '../message-framing.ts'
import { type CallStreams, streamWindow } from './call-streams.ts'
import {
  ACK,
  COMPRESSION_ERROR,
  CONTINUATION,
  DATA,
  DEFAULT_WINDOW,
  END_HEADERS,
  END_STREAM,
  ENHANCE_YOUR_CALM,
  FLOW_CONTROL_ERROR,
  FRAME_SIZE_ERROR,
  GOAWAY,
  HAS_PRIORITY,
  HEADERS,
  NO_ERROR,
  PADDED,
  PING,
  PRIORITY,
  PROTOCOL_ERROR,
  PUSH_PROMISE,
  RST_STREAM,
  SETTINGS_FRAME,
  STREAM_CLOSED,
  WINDOW_UPDATE,
} from './frame-reader.ts'
import { HpackDecoder } from './hpack-decoder.ts'
import type { Http2Context } from './http2-context.ts'
import { type FrameBudgets, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, MAX_HEADER_LIST_SIZE, type PeerSettings } from './peer-settings.ts'

/** Receive window of the whole connection. */
const CONNECTION_WINDOW = 4 * 1024 * 1024

/** The parts of a connection that its frames change. */
interface ConnectionParts {
  readonly streams: CallStreams
  readonly settings: PeerSettings
  readonly budgets: FrameBudgets
}

/** Interprets each frame of a client (RFC 9113 6): checks whether it is allowed at this point, and applies it. */
export class IncomingFrames {
  readonly #context: Http2Context
  readonly #socket: Socket
  readonly #streams: CallStreams
  readonly #settings: PeerSettings
  readonly #budgets: FrameBudgets
  readonly #onPong: (payload: Buffer) => void
  readonly #decoder: HpackDecoder
  #block: HeaderBlock | undefined
  /** Bytes received since our last WINDOW_UPDATE for the connection. */
  #unacknowledged = 0
  #hasBegun = false
  #hasSettings = false

  /** `onPong` is called with the payload when one of our pings is acknowledged. */
  constructor(context: Http2Context, socket: Socket, { streams, settings, budgets }: ConnectionParts, onPong: (payload: Buffer) => void) {
    this.#context = context
    this.#decoder = new HpackDecoder(context.isTraced)
    this.#socket = socket
    this.#streams = streams
    this.#settings = settings
    this.#budgets = budgets
    this.#onPong = onPong
  }

  /** Whether the client's first SETTINGS frame has arrived. */
  get hasSettings(): boolean {
    return this.#hasSettings
  }

  /** Whether a header block has arrived only in part. */
  get isInBlock(): boolean {
    return this.#block !== undefined
  }

  /** Sends our SETTINGS and widens the connection's window, unless that has been done. */
  begin(): void {
    if (this.#hasBegun) return
    this.#hasBegun = true
    const { limits, writer } = this.#context
    writer.settings(this.#socket, [
      [MAX_CONCURRENT_STREAMS, limits.maxStreams],
      [INITIAL_WINDOW_SIZE, streamWindow(limits.maxMessageBytes)],
      [MAX_HEADER_LIST_SIZE, limits.maxHeaderBytes],
    ])
    writer.windowUpdate(this.#socket, 0, CONNECTION_WINDOW - DEFAULT_WINDOW)
  }

  /** Drops a header block that has arrived only in part. */
  close(): void {
    this.#block?.giveBack()
    this.#block = undefined
  }

  /** Returns the error that ends the connection, or NO_ERROR. */
  take(type: number, flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (!this.#hasSettings && (type !== SETTINGS_FRAME || (flags & ACK) !== 0)) return PROTOCOL_ERROR
    if (this.#block !== undefined && type !== CONTINUATION) return PROTOCOL_ERROR
    switch (type) {
      case DATA:
        return this.#data(flags, id, bytes, from, to)
      case HEADERS:
        return this.#headers(flags, id, bytes, from, to)
      case PRIORITY:
        if (to - from !== 5) return FRAME_SIZE_ERROR
        return id === 0 || isOwnDependency(id, bytes, from) ? PROTOCOL_ERROR : this.#countControl()
      case RST_STREAM:
        return this.#reset(id, to - from)
      case SETTINGS_FRAME:
        return this.#readSettings(flags, id, bytes, from, to)
      case PUSH_PROMISE:
        return PROTOCOL_ERROR
      case PING:
        return this.#ping(flags, id, bytes, from, to)
      case GOAWAY:
        if (id !== 0) return PROTOCOL_ERROR
        return to - from >= 8 ? this.#countControl() : FRAME_SIZE_ERROR
      case WINDOW_UPDATE:
        return this.#widen(id, bytes, from, to)
      case CONTINUATION:
        return this.#continue(flags, id, bytes, from, to)
      default:
        // RFC 9113 5.5: frames of unknown types are ignored.
        return this.#countControl()
    }
  }

  #data(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (id === 0) return PROTOCOL_ERROR
    this.#unacknowledged += to - from
    if (this.#unacknowledged > CONNECTION_WINDOW) return FLOW_CONTROL_ERROR
    if (this.#unacknowledged >= CONNECTION_WINDOW / 2) {
      this.#context.writer.windowUpdate(this.#socket, 0, this.#unacknowledged)
      this.#unacknowledged = 0
    }
    const isEnd = (flags & END_STREAM) !== 0
    if ((flags & PADDED) === 0) return this.#streams.data(id, bytes, from, to, to - from, isEnd)
    const end = to - (bytes[from] ?? 0)
    return from + 1 > end || from === to ? PROTOCOL_ERROR : this.#streams.data(id, bytes, from + 1, end, to - from, isEnd)
  }

  #headers(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (id % 2 === 0) return PROTOCOL_ERROR
    let begin = from
    let end = to
    if ((flags & PADDED) !== 0) {
      if (begin === to) return PROTOCOL_ERROR
      end -= bytes[begin++]!
    }
    if ((flags & HAS_PRIORITY) !== 0) {
      if (begin + 5 > end || isOwnDependency(id, bytes, begin)) return PROTOCOL_ERROR
      begin += 5
    }
    if (begin > end) return PROTOCOL_ERROR
    const isEnd = (flags & END_STREAM) !== 0
    if ((flags & END_HEADERS) !== 0) return this.#head(id, isEnd, bytes, begin, end)
    const { limits, partial } = this.#context
    this.#block = new HeaderBlock(id, isEnd, limits.maxHeaderBytes, partial)
    return this.#block.add(bytes.subarray(begin, end)) ? NO_ERROR : ENHANCE_YOUR_CALM
  }

  #continue(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    const block = this.#block
    if (block === undefined || block.streamId !== id) return PROTOCOL_ERROR
    if (!block.add(bytes.subarray(from, to))) return ENHANCE_YOUR_CALM
    if ((flags & END_HEADERS) === 0) return NO_ERROR
    this.close()
    return this.#head(id, block.isEnd, block.bytes, 0, block.bytes.length)
  }

  /** Decodes every header block, even one that is refused, because it may change the HPACK table that later blocks depend on. */
  #head(id: number, isEnd: boolean, bytes: Buffer, from: number, to: number): number {
    const { head } = this.#context
    const isTrailers = this.#streams.has(id)
    head.begin(isTrailers)
    if (!this.#decoder.decode(bytes, from, to, head)) return COMPRESSION_ERROR
    head.end()
    if (isTrailers) return this.#streams.trailers(id, head, isEnd)
    if (id > this.#streams.lastId) return this.#streams.begin(id, head, isEnd)
    return this.#streams.isCut(id) ? this.#countControl() : STREAM_CLOSED
  }

  #reset(id: number, length: number): number {
    if (id === 0 || this.#isIdle(id)) return PROTOCOL_ERROR
    if (length !== 4) return FRAME_SIZE_ERROR
    if (!this.#streams.reset(id)) return this.#countControl()
    // CVE-2023-44487: a cancelled call makes room for the next one while its work may still go on, so cancellations have a budget.
    return this.#budgets.resets.take(this.#context.nowMs) ? NO_ERROR : ENHANCE_YOUR_CALM
  }

  #readSettings(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (id !== 0) return PROTOCOL_ERROR
    if ((flags & ACK) !== 0) return to === from ? this.#countControl() : FRAME_SIZE_ERROR
    const { initialWindow } = this.#settings
    const error = this.#settings.read(bytes, from, to)
    if (error !== NO_ERROR) return error
    this.#hasSettings = true
    this.begin()
    this.#context.writer.settingsAck(this.#socket)
    const change = this.#settings.initialWindow - initialWindow
    return change === 0 ? this.#countControl() : this.#streams.changeWindows(change)
  }

  #ping(flags: number, id: number, bytes: Buffer, from: number, to: number): number {
    if (id !== 0) return PROTOCOL_ERROR
    if (to - from !== 8) return FRAME_SIZE_ERROR
    if ((flags & ACK) === 0) this.#context.writer.ping(this.#socket, bytes, from, true)
    else this.#onPong(bytes.subarray(from, to))
    return this.#countControl()
  }

  #widen(id: number, bytes: Buffer, from: number, to: number): number {
    if (to - from !== 4) return FRAME_SIZE_ERROR
    if (this.#isIdle(id)) return PROTOCOL_ERROR
    const increment = bytes.readUInt32BE(from) % 2 ** 31
    if (id !== 0) return this.#streams.widenStream(id, increment)
    return increment === 0 ? PROTOCOL_ERROR : this.#streams.widen(increment)
  }

  #isIdle(id: number): boolean {
    return id > this.#streams.lastId || (id !== 0 && id % 2 === 0)
  }

  #countControl(): number {
    return this.#budgets.controls.take(this.#context.nowMs) ? NO_ERROR : ENHANCE_YOUR_CALM
  }
}

/** RFC 7540 5.3.1: a stream cannot depend on itself. */
function isOwnDependency(id: number, bytes: Buffer, from: number): boolean {
  return bytes.readUInt32BE(from) % 2 ** 31 === id
}

/** More than a block of the largest size needs. Empty frames count as well. */
const MAX_CONTINUATIONS = 8

/** A header block that comes in several frames. No other frame may come before it is complete (RFC 9113 6.10). */
class HeaderBlock {
  readonly streamId: number
  readonly isEnd: boolean
  readonly #maxBytes: number
  readonly #partial: PartialMessages
  readonly #bytes = new GrowingBuffer()
  #continuations = -1

  constructor(streamId: number, isEnd: boolean, maxBytes: number, partial: PartialMessages) {
    this.streamId = streamId
    this.isEnd = isEnd
    this.#maxBytes = maxBytes
    this.#partial = partial
  }

  get bytes(): Buffer {
    return this.#bytes.bytes
  }

  /** Returns false if the block is too long, has too many frames, or exceeds the worker's memory for partial messages. */
  add(piece: Buffer): boolean {
    if (!this.#partial.take(piece.length)) return false
    this.#bytes.add(piece)
    return ++this.#continuations <= MAX_CONTINUATIONS && this.#bytes.size <= this.#maxBytes
  }

  /** Must be called when the block is no longer needed. */
  giveBack(): void {
    this.#partial.giveBack(this.#bytes.size)
  }
}
