import type { IncomingMessage } from 'node:http'
import type { BodyReader, BodySource } from '../body-source.ts'

/** The body of a request that Node has parsed. */
export class NodeBody implements BodySource {
  readonly #req: IncomingMessage
  #reader: BodyReader | undefined
  #isStarted = false
  isGone: boolean

  constructor(req: IncomingMessage, isGone: boolean) {
    this.#req = req
    this.isGone = isGone
  }

  get isComplete(): boolean {
    return this.#req.complete
  }

  giveTo(reader: BodyReader | undefined): void {
    this.#reader = reader
    // A stream tells of its end once.
    if (reader !== undefined && this.#req.readableEnded) process.nextTick(() => this.#reader?.onEnd())
  }

  pause(): void {
    this.#req.pause()
  }

  resume(): void {
    if (!this.#isStarted) {
      this.#isStarted = true
      this.#req.on('data', (chunk: Buffer) => this.#reader?.onData(chunk))
      this.#req.on('end', () => this.#reader?.onEnd())
    }
    this.#req.resume()
  }

  limitIdle(ms: number): void {
    this.#req.setTimeout(ms)
  }

  /** The connection is closed. */
  onGone(): void {
    this.isGone = true
    this.#reader?.onGone()
  }
}
