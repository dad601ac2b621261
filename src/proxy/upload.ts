import type { IncomingMessage } from 'node:http'
import type { BackendCall } from './backend/backend-call.ts'

/** A request's body on its way from the client to the backend. */
export class Upload {
  readonly #req: IncomingMessage
  /** How long the client may pause in the middle of it. */
  readonly #idleTimeoutMs: number
  #call: BackendCall | undefined

  constructor(req: IncomingMessage, call: BackendCall, idleTimeoutMs: number) {
    this.#req = req
    this.#call = call
    this.#idleTimeoutMs = idleTimeoutMs
    req.on('data', (chunk: Buffer) => this.write(chunk))
    req.on('end', () => this.#end())
    // One that was there whole when the first of it was read has said so; what was read is written before it ends.
    if (req.readableEnded) process.nextTick(() => this.#end())
    else this.goOn()
  }

  #end(): void {
    // Without a call the answer is out, and Node keeps its own time for the connection.
    if (this.#call !== undefined) this.#req.setTimeout(0)
    this.#call?.endBody()
  }

  /** Returns false when the backend takes no more for now. */
  write(chunk: Buffer): boolean {
    if (this.#call === undefined || this.#call.write(chunk)) return true
    this.#req.pause()
    // The backend is the slow side now, not the client.
    this.#req.setTimeout(0)
    return false
  }

  /** The backend takes more. */
  goOn(): void {
    if (this.#call === undefined) return
    if (!this.#req.complete) this.#req.setTimeout(this.#idleTimeoutMs)
    this.#req.resume()
  }

  /** Nobody wants the rest: it is read and thrown away, for it stands between this answer and the next. */
  drop(): void {
    this.#call = undefined
    this.#req.resume()
  }
}
