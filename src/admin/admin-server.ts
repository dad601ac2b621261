import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { HttpListener, PortOptions } from '../listen/http-listener.ts'
import { RequestTurns } from '../listen/node-http/request-turns.ts'
import { type Handle, type Route, Routes, respondText } from '../listen/node-http/routes.ts'
import { newPlainListener } from '../listen/plain-listener.ts'
import type { Series } from '../telemetry/metrics/metric-families.ts'
import { Sampler } from '../telemetry/sampler.ts'
import type { Clock } from '../time/clock.ts'
import { TimeShare } from '../time/slices.ts'

/** Of a request's body, whoever reads it or not. */
const MAX_BODY_BYTES = 1024 * 1024

/** About one request: pipelined ones are parsed when there is time for them. */
const PIECE_BYTES = 1024
/** What parsing may take of a worker's time, beside what the requests themselves may. */
const PARSING_SHARE = 0.1
const PARSING_BURST_MS = 20

/** The listener of operators. `onClosing` ends responses that have no end of their own. */
export function newAdminServer(endpoints: AdminEndpoints, options: PortOptions, onClosing = (): void => {}): HttpListener {
  const handle: Handle = (req, res) => endpoints.handle(req, res, () => boundBody(req, endpoints))
  const share = new TimeShare(PARSING_SHARE, PARSING_BURST_MS, performance.now())
  return newPlainListener(options, handle, { parsing: { bytes: PIECE_BYTES, share }, onClosing })
}

/** To be called in the request's turn: until then nothing of the body is read. One that its route does not read is dropped, and an endless one would keep the worker busy. */
function boundBody(req: IncomingMessage, endpoints: AdminEndpoints): void {
  let bytes = 0
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    endpoints.noteBody(chunk.length)
    if (bytes > MAX_BODY_BYTES) req.socket.destroy()
  })
}

/** What all requests together may take of a worker's time, each counted with what `node:http` takes to read it and to respond. */
const SHARE = 0.1
const BURST_MS = 20
const REQUEST_MS = 0.05
/** Of a body: at worst, reading it as JSON takes that long. */
const BYTE_MS = 0.00006

/** Ours in both modes, whether or not there is something behind them: without a secret there are no debug sessions. */
const RESERVED_PATHS: ReadonlySet<string> = new Set(['/v1/debug/session', '/v1/debug/logout'])

export interface AdminParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly failures: Series
}

/**
 * What operators ask, on a listener of its own or beside the decisions. Nothing here holds up a decision for long: a connection has one
 * request under way, more requests than a worker has time for wait, and a failure is no refused decision.
 */
export class AdminEndpoints {
  readonly #routes: Routes
  readonly #parts: AdminParts
  readonly #turns = new RequestTurns()
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  /** In the order in which they came, one for each connection. */
  readonly #waiting: { readonly res: ServerResponse; readonly onBegin: () => void }[] = []
  readonly #failureLog = new Sampler<string>(new Map())

  constructor(routes: Iterable<Route>, parts: AdminParts) {
    this.#routes = new Routes(routes)
    this.#parts = parts
  }

  /** Whether a path is one of these, on a listener that also serves others. */
  covers(path: string): boolean {
    return this.#routes.has(path) || RESERVED_PATHS.has(path)
  }

  /** `onBegin`: its turn has come, and its route gets it next. */
  handle(req: IncomingMessage, res: ServerResponse, onBegin = (): void => {}): void {
    this.#turns.take(req, res, () => {
      this.#waiting.push({ res, onBegin })
      if (this.#waiting.length === 1) this.#beginWaiting()
    })
  }

  /** So many bytes of a request's body have come. */
  noteBody(bytes: number): void {
    this.#time.spend(bytes * BYTE_MS, performance.now())
  }

  /** One timer for all that wait: one for each would cost more than the requests themselves. */
  #beginWaiting(): void {
    let begun = 0
    for (; begun < this.#waiting.length; begun++) {
      const nowMs = performance.now()
      const waitMs = this.#time.waitMs(nowMs)
      if (waitMs > 0) {
        setTimeout(() => this.#beginWaiting(), waitMs).unref()
        break
      }
      const { res, onBegin } = this.#waiting[begun]!
      if (res.req.socket.destroyed) continue
      this.#time.spend(REQUEST_MS, nowMs)
      onBegin()
      this.#routes.dispatch(res.req, res, (_res, error) => this.#fail(res, error))
    }
    this.#waiting.splice(0, begun)
  }

  #fail(res: ServerResponse, error: unknown): void {
    const { clock, logger, failures } = this.#parts
    failures.count++
    const unlogged = this.#failureLog.admit('', clock.nowMs())
    if (unlogged !== undefined) logger.error({ event: 'admin_failed', err: error, unlogged }, 'an admin request failed')
    if (res.writableEnded) return
    if (res.headersSent) res.destroy()
    else respondText(res, 500, 'text/plain; charset=utf-8', 'internal error\n')
  }
}
