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

/** Largest body of a request, whether or not its route reads it. */
const MAX_BODY_BYTES = 1024 * 1024

/** The size of about one request, so that pipelined requests are parsed only when there is time for them. */
const PIECE_BYTES = 1024
/** Share of a worker's time that parsing may take, in addition to the share of the requests themselves. */
const PARSING_SHARE = 0.1
const PARSING_BURST_MS = 20

/** Creates the listener for operators. `onClosing` must end responses that would otherwise never end. */
export function newAdminServer(endpoints: AdminEndpoints, options: PortOptions, onClosing = (): void => {}): HttpListener {
  const handle: Handle = (req, res) => endpoints.handle(req, res, () => boundBody(req, endpoints))
  const share = new TimeShare(PARSING_SHARE, PARSING_BURST_MS, performance.now())
  return newPlainListener(options, handle, { parsing: { bytes: PIECE_BYTES, share }, onClosing })
}

/**
 * Bounds the request's body. Must be called when it is the request's turn, because this starts reading the body. A body that its route does not read
 * is dropped, and without the bound an endless one would keep the worker busy.
 */
function boundBody(req: IncomingMessage, endpoints: AdminEndpoints): void {
  let bytes = 0
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    endpoints.noteBody(chunk.length)
    if (bytes > MAX_BODY_BYTES) req.socket.destroy()
  })
}

/** Share of a worker's time that all requests together may take. Each counts with the time that `node:http` needs to read it and to respond. */
const SHARE = 0.1
const BURST_MS = 20
const REQUEST_MS = 0.05
/** Time per byte of a body, which is how long reading it as JSON takes at worst. */
const BYTE_MS = 0.00006

/** Paths that are ours in both modes, even if nothing serves them because there is no debug secret. */
const RESERVED_PATHS: ReadonlySet<string> = new Set(['/v1/debug/session', '/v1/debug/logout'])

export interface AdminParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly failures: Series
}

/**
 * The endpoints for operators, on a separate listener or beside the decisions. Nothing here delays a decision for long: a connection has one request
 * under way, requests wait while the worker has no time for them, and a failure does not count as a refused decision.
 */
export class AdminEndpoints {
  readonly #routes: Routes
  readonly #parts: AdminParts
  readonly #turns = new RequestTurns()
  readonly #time = new TimeShare(SHARE, BURST_MS, performance.now())
  /** Requests in the order of their arrival, one for each connection. */
  readonly #waiting: { readonly res: ServerResponse; readonly onBegin: () => void }[] = []
  readonly #failureLog = new Sampler<string>(new Map())

  constructor(routes: Iterable<Route>, parts: AdminParts) {
    this.#routes = new Routes(routes)
    this.#parts = parts
  }

  /** Returns whether a path belongs to these endpoints, on a listener that also serves others. */
  covers(path: string): boolean {
    return this.#routes.has(path) || RESERVED_PATHS.has(path)
  }

  /** Calls `onBegin` when it is the request's turn, just before its route gets it. */
  handle(req: IncomingMessage, res: ServerResponse, onBegin = (): void => {}): void {
    this.#turns.take(req, res, () => {
      this.#waiting.push({ res, onBegin })
      if (this.#waiting.length === 1) this.#beginWaiting()
    })
  }

  /** Accounts for this many bytes of a request's body. */
  noteBody(bytes: number): void {
    this.#time.spend(bytes * BYTE_MS, performance.now())
  }

  /** One timer serves all waiting requests, because a timer for each would cost more than the requests themselves. */
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
