import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FakeCall } from './call.ts'

/** Writes a response's bytes in pieces that are sent one by one. Throws an AbortError when the client disconnects. */
export class ResponseWriter {
  readonly #call: FakeCall

  constructor(call: FakeCall) {
    this.#call = call
  }

  async write(bytes: Buffer): Promise<void> {
    const step = this.#call.options.chunkBytes || bytes.length
    for (let from = 0; from < bytes.length; from += step) await this.#send(bytes.subarray(from, from + step))
  }

  end(): void {
    this.#call.signal.throwIfAborted()
    this.#call.res.end()
  }

  async #send(piece: Buffer): Promise<void> {
    const { res, signal } = this.#call
    signal.throwIfAborted()
    if (!res.write(piece)) await once(res, 'drain', { signal })
    // What is written in one turn of the event loop leaves as one.
    await nextTurn(undefined, { signal })
  }
}
