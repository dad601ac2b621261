import type { IncomingMessage } from 'node:http'
import type { BodyReader, BodySource } from '../body-source.ts'

/** The body of a request that Node has parsed. */
export class NodeBody implements BodySource {
  readonly #req: IncomingMessage
  #reader: BodyReader | undefined
  #isStarted = false
  readonly comesNext = false
  isGone: boolean

  constructor(req: IncomingMessage, isGone: boolean) {
    this.#req = req
    this.isGone = isGone
  }

  get isComplete(): boolean {
    return this.#req.complete
  }

  get isRead(): boolean {
    return this.#req.readableEnded
  }

  giveTo(reader: BodyReader | undefined): void {
    this.#reader = reader
    // A stream tells of its end once.
    if (reader !== undefined && this.isRead) process.nextTick(() => this.#tell('onEnd'))
  }

  pause(): void {
    this.#req.pause()
  }

  resume(): void {
    if (!this.#isStarted) {
      this.#isStarted = true
      this.#req.on('data', (chunk: Buffer) => this.#onData(chunk))
      this.#req.on('end', () => this.#tell('onEnd'))
    }
    this.#req.resume()
  }

  limitIdle(ms: number): void {
    this.#req.setTimeout(ms)
  }

  /** The connection is closed. */
  onGone(): void {
    this.isGone = true
    this.#tell('onGone')
  }

  #onData(chunk: Buffer): void {
    const reader = this.#reader
    try {
      reader?.onData(chunk)
    } catch (error) {
      reader?.abandon(error)
    }
  }

  #tell(callback: 'onEnd' | 'onGone'): void {
    const reader = this.#reader
    try {
      reader?.[callback]()
    } catch (error) {
      reader?.abandon(error)
    }
  }
}
