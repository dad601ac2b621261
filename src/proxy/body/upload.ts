import type { BackendCall } from '../backend/backend-call.ts'
import type { BodyReader, BodySource } from '../downstream.ts'
import type { ResponseFlow } from '../llm/llm-response.ts'

interface UploadOwner extends Pick<ResponseFlow, 'abandon'> {
  /** What comes next depends on the client from now on, or no longer. May be called several times with the same value. */
  onClientAwaited(isAwaited: boolean): void
}

/** Passes a request's body on from the client to the backend. */
export class Upload implements BodyReader {
  readonly #body: BodySource
  readonly #call: BackendCall
  /** How long the client may pause in the middle of the body. */
  readonly #idleTimeoutMs: number
  readonly #exchange: UploadOwner

  constructor(body: BodySource, call: BackendCall, idleTimeoutMs: number, exchange: UploadOwner) {
    this.#body = body
    this.#call = call
    this.#idleTimeoutMs = idleTimeoutMs
    this.#exchange = exchange
    body.giveTo(this)
    this.goOn()
  }

  onData(chunk: Buffer): void {
    this.write(chunk)
  }

  onEnd(): void {
    this.#awaitClient(false)
    this.#call.endBody()
  }

  onGone(): void {
    this.#body.giveTo(undefined)
  }

  abandon(error: unknown): void {
    this.#exchange.abandon(error)
  }

  /** Returns false if the backend takes no more for now. */
  write(chunk: Buffer): boolean {
    if (this.#call.write(chunk)) return true
    this.#body.pause()
    // The backend is the slow side now, not the client.
    this.#awaitClient(false)
    return false
  }

  /** To be called when the backend takes more. */
  goOn(): void {
    if (!this.#body.isComplete) this.#awaitClient(true)
    this.#body.resume()
  }

  /** Discards the rest of the body, which nobody wants. It must still be read, because the next request on the connection comes after it. */
  drop(): void {
    this.#body.giveTo(undefined)
    this.#body.resume()
  }
  #awaitClient(isAwaited: boolean): void {
    this.#body.limitIdle(isAwaited ? this.#idleTimeoutMs : 0)
    this.#exchange.onClientAwaited(isAwaited)
  }
}
