import type { Socket } from 'node:net'
import type { WireContext } from './wire-context.ts'

/** On all connections of a wire together. Beyond this, a connection that must stop reading because of pipelined requests is closed instead. */
const MAX_HELD_BYTES = 16 * 1024 * 1024

/** Stops and resumes reading a connection, and counts the pipelined bytes that wait on it meanwhile. */
export class ReadPause {
  readonly #context: WireContext
  readonly #socket: Socket
  /** How many bytes this connection has added to the sum of all. */
  #heldBytes = 0
  isOn = false

  constructor(context: WireContext, socket: Socket) {
    this.#context = context
    this.#socket = socket
  }

  /** `pipelinedBytes` wait for the response to a request; 0: the connection waits for a slow backend to take its upload. */
  begin(pipelinedBytes: number): void {
    if (this.isOn) return
    this.isOn = true
    this.#socket.pause()
    const context = this.#context
    this.#heldBytes = pipelinedBytes
    context.heldBytes += pipelinedBytes
    if (pipelinedBytes === 0 || context.heldBytes <= MAX_HELD_BYTES) return
    context.handlers.noteMalformed('too many pipelined requests wait')
    this.#socket.destroy()
  }

  end(): void {
    if (!this.isOn) return
    this.isOn = false
    this.#context.heldBytes -= this.#heldBytes
    this.#heldBytes = 0
    this.#socket.resume()
  }
}
