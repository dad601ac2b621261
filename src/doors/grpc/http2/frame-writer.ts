import type { Socket } from 'node:net'
import { PREFIX_BYTES } from '../message-framing.ts'
import {
  ACK,
  DATA,
  END_HEADERS,
  END_STREAM,
  FRAME_HEAD_BYTES,
  GOAWAY,
  HEADERS,
  MAX_FRAME_BYTES,
  PING,
  RST_STREAM,
  SETTINGS_FRAME,
  WINDOW_UPDATE,
} from './frame-reader.ts'

const PING_BYTES = 8
/** Consecutive frames are written together, up to this size. */
const BATCH_BYTES = 64 * 1024

/**
 * Writes the frames of all connections of a worker. The frames of one connection in one turn leave in one write: they are collected here
 * until another connection writes, or until they are flushed.
 */
export class FrameWriter {
  readonly #bytes = Buffer.allocUnsafeSlow(BATCH_BYTES)
  #at = 0
  #socket: Socket | undefined
  #isFlushScheduled = false
  readonly #flushLater = (): void => {
    this.#isFlushScheduled = false
    this.flush()
  }

  flush(): void {
    const socket = this.#socket
    if (this.#at === 0 || socket === undefined) return
    // A latin1 string is quicker to make and write than a buffer of this size, and keeps no buffer pool alive while the client does not read.
    const text = this.#bytes.toString('latin1', 0, this.#at)
    this.#at = 0
    this.#socket = undefined
    if (socket.writable) socket.write(text, 'latin1')
  }

  /** Flushes after the promises that are already resolved have written their frames. */
  flushSoon(): void {
    if (this.#isFlushScheduled) return
    this.#isFlushScheduled = true
    process.nextTick(this.#flushLater)
  }

  /** `prefix` is a byte in front of the block, or -1 for none. */
  headers(socket: Socket, streamId: number, block: Buffer, isEnd: boolean, prefix: number): void {
    const length = block.length + (prefix < 0 ? 0 : 1)
    this.#head(socket, length, HEADERS, isEnd ? END_HEADERS | END_STREAM : END_HEADERS, streamId)
    if (prefix >= 0) this.#bytes[this.#at++] = prefix
    this.#copy(block, 0, block.length)
  }

  /** Writes a whole message in one frame. */
  message(socket: Socket, streamId: number, message: Uint8Array): void {
    this.#head(socket, PREFIX_BYTES + message.length, DATA, 0, streamId)
    this.#bytes[this.#at++] = 0
    this.#number(message.length)
    this.#copy(message, 0, message.length)
  }

  /** Writes part of a message that already has its prefix. */
  data(socket: Socket, streamId: number, bytes: Uint8Array, from: number, to: number): void {
    this.#head(socket, to - from, DATA, 0, streamId)
    this.#copy(bytes, from, to)
  }

  reset(socket: Socket, streamId: number, error: number): void {
    this.#head(socket, 4, RST_STREAM, 0, streamId)
    this.#number(error)
  }

  windowUpdate(socket: Socket, streamId: number, bytes: number): void {
    this.#head(socket, 4, WINDOW_UPDATE, 0, streamId)
    this.#number(bytes)
  }

  settings(socket: Socket, settings: readonly (readonly [id: number, value: number])[]): void {
    this.#head(socket, settings.length * 6, SETTINGS_FRAME, 0, 0)
    for (const [id, value] of settings) {
      this.#bytes[this.#at++] = id >> 8
      this.#bytes[this.#at++] = id
      this.#number(value)
    }
  }

  settingsAck(socket: Socket): void {
    this.#head(socket, 0, SETTINGS_FRAME, ACK, 0)
  }

  ping(socket: Socket, payload: Uint8Array, from: number, isAck: boolean): void {
    this.#head(socket, PING_BYTES, PING, isAck ? ACK : 0, 0)
    this.#copy(payload, from, from + PING_BYTES)
  }

  goAway(socket: Socket, lastStreamId: number, error: number, reason: string): void {
    this.#head(socket, 8 + reason.length, GOAWAY, 0, 0)
    this.#number(lastStreamId)
    this.#number(error)
    this.#at += this.#bytes.write(reason, this.#at, 'latin1')
  }

  #head(socket: Socket, length: number, type: number, flags: number, streamId: number): void {
    if (length > MAX_FRAME_BYTES) throw new Error(`a frame of ${length} bytes is too long`)
    if (socket !== this.#socket || this.#at + FRAME_HEAD_BYTES + length > BATCH_BYTES) {
      this.flush()
      this.#socket = socket
    }
    const bytes = this.#bytes
    const at = this.#at
    bytes[at] = length >> 16
    bytes[at + 1] = length >> 8
    bytes[at + 2] = length
    bytes[at + 3] = type
    bytes[at + 4] = flags
    this.#at = at + 5
    this.#number(streamId)
  }

  #number(value: number): void {
    const bytes = this.#bytes
    const at = this.#at
    bytes[at] = value >>> 24
    bytes[at + 1] = value >> 16
    bytes[at + 2] = value >> 8
    bytes[at + 3] = value
    this.#at = at + 4
  }

  #copy(bytes: Uint8Array, from: number, to: number): void {
    const target = this.#bytes
    let at = this.#at
    // For the short payload of most frames, a loop is faster than a native call.
    if (to - from <= 64) for (let i = from; i < to; i++) target[at++] = bytes[i]!
    else {
      target.set(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to), at)
      at += to - from
    }
    this.#at = at
  }
}
