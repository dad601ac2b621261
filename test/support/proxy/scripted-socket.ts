import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** A client's socket without a network: what comes on it, and what it takes, is the test's choice. */
export class ScriptedSocket extends Duplex {
  readonly remoteAddress = '192.0.2.1'
  /** What it took. */
  sent = ''
  bytesWritten = 0
  #isBlocked = false
  #onTaken: (() => void) | undefined

  /** As those take it that know sockets. */
  get socket(): Socket {
    return this as unknown as Socket
  }

  /** Bytes come, in one read, and in a buffer that the next one overwrites. */
  says(text: string): void {
    const bytes = Buffer.from(text, 'latin1')
    this.emit('data', bytes)
    bytes.fill('!')
  }

  /** Takes nothing more until `unblock`. */
  block(): void {
    this.#isBlocked = true
  }

  unblock(): void {
    this.#isBlocked = false
    this.#onTaken?.()
  }

  destroySoon(): void {
    this.destroy()
  }

  resetAndDestroy(): void {
    this.destroy()
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, onTaken: () => void): void {
    this.sent += chunk.toString('latin1')
    this.bytesWritten += chunk.length
    if (this.#isBlocked) this.#onTaken = onTaken
    else onTaken()
  }
}
