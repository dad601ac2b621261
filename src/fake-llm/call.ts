import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FakeLlmOptions } from './options.ts'

/** A request as it came in, and what became of it. */
export interface ReceivedRequest {
  readonly method: string
  readonly url: string
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[]
  /** Empty until all of it is here. */
  readonly body: Buffer
  /** The answer was sent, or will never be. */
  readonly isClosed: boolean
  /** The other side went away before it had the whole answer. */
  readonly isAborted: boolean
}

/** A request on its way to its answer. */
export class Call {
  readonly request: { -readonly [Name in keyof ReceivedRequest]: ReceivedRequest[Name] }
  readonly res: ServerResponse
  /** As they were when the request came in. */
  readonly options: Readonly<FakeLlmOptions>
  /** This side breaks the connection, so that its end says nothing about the other. */
  isBreaking = false
  readonly #closed = new AbortController()

  constructor(req: IncomingMessage, res: ServerResponse, options: FakeLlmOptions) {
    this.request = {
      method: req.method!,
      url: req.url!,
      headers: req.rawHeaders,
      body: Buffer.alloc(0),
      isClosed: false,
      isAborted: false,
    }
    this.res = res
    this.options = { ...options }
    res.on('error', () => {}) // 'close' follows and says it all
    res.on('close', () => {
      this.request.isClosed = true
      this.request.isAborted = !res.writableFinished && !this.isBreaking
      this.#closed.abort()
    })
  }

  /** Aborted when there is nobody to answer any more: whoever waits for something takes it along. */
  get signal(): AbortSignal {
    return this.#closed.signal
  }
}
