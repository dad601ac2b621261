import type { Socket } from 'node:net'
import { MAX_FRAME_BYTES } from './frame.ts'
import type { FrameWriter } from './frame-writer.ts'

/** What a stream has to send and the client's windows do not let through yet. */
export class WaitingOutput {
  readonly #messages: Buffer[] = []
  /** Of the first message, so much is sent. */
  #sentBytes = 0
  #bytes = 0
  /** Since it last got on. */
  sinceMs: number
  /** What ends the stream, once all is sent. */
  trailers: Buffer | undefined

  constructor(nowMs: number) {
    this.sinceMs = nowMs
  }

  get bytes(): number {
    return this.#bytes
  }

  /** With its prefix. */
  add(message: Buffer): void {
    this.#messages.push(message)
    this.#bytes += message.length
  }

  /** Returns how much of the window it used. */
  write(writer: FrameWriter, socket: Socket, streamId: number, window: number): number {
    let left = window
    while (this.#bytes > 0 && left > 0) {
      const message = this.#messages[0]!
      const from = this.#sentBytes
      const to = Math.min(message.length, from + left, from + MAX_FRAME_BYTES)
      writer.data(socket, streamId, message, from, to)
      left -= to - from
      this.#bytes -= to - from
      this.#sentBytes = to
      if (to < message.length) continue
      this.#messages.shift()
      this.#sentBytes = 0
    }
    return window - left
  }
}
