import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { ByAddress } from '../listen/by-address.ts'
import type { HttpListener, PortOptions } from '../listen/http-listener.ts'
import { RequestTurns } from '../listen/node-http/request-turns.ts'
import { type Handle, pathOf, type Route, Routes, respondJson, respondText } from '../listen/node-http/routes.ts'
import { newPlainListener } from '../listen/plain-listener.ts'
import type { Series } from '../telemetry/metrics/metric-families.ts'
import { Sampler } from '../telemetry/sampler.ts'
import type { Clock } from '../time/clock.ts'
import { TimeShare } from '../time/slices.ts'
import { ApiError, errorBody } from './api/api-error.ts'

/** Largest body of a request without credentials, whether or not its route reads it. */
export const MAX_OPEN_BYTES = 4 * 1024
/** The same with credentials. A body that its route refuses is dropped up to here, so that the client sees why. */
const MAX_BODY_BYTES = 1024 * 1024
/** A head that takes longer is cut: there are few connections here. */
const MAX_HEAD_MS = 5000

/** The size of about one request, so that pipelined requests are parsed only when there is time for them. */
const PIECE_BYTES = 1024
/** Share of a worker's time that parsing may take, in addition to the share of the requests themselves. */
const PARSING_SHARE = 0.1
const PARSING_BURST_MS = 20

/** Creates the listener for operators. `onClosing` must end responses that would otherwise never end. */
export function newAdminServer(endpoints: AdminEndpoints, options: PortOptions, onClosing = (): void => {}): HttpListener {
  const handle: Handle = (req, res) => {
    const { authorization, cookie, 'content-length': length = '0' } = req.headers
    const maxBytes = authorization === undefined && cookie === undefined ? MAX_OPEN_BYTES : MAX_BODY_BYTES
    if (Number(length) > maxBytes) return refuseBody(res, maxBytes)
    endpoints.handle(req, res, () => boundBody(req, res, { endpoints, maxBytes }))
  }
  const share = new TimeShare(PARSING_SHARE, PARSING_BURST_MS, performance.now())
  const timeouts = { ...options.timeouts, headersTimeoutMs: Math.min(options.timeouts.headersTimeoutMs, MAX_HEAD_MS) }
  return newPlainListener({ ...options, timeouts }, handle, { parsing: { bytes: PIECE_BYTES, share }, onClosing, isProbe })
}

/**
 * Bounds a request's body whose length is not known. Must be called when it is the request's turn, because this starts reading the body. A body that
 * its route does not read is dropped, and without the bound an endless one would keep the worker busy.
 */
function boundBody(req: IncomingMessage, res: ServerResponse, { endpoints, maxBytes }: BodyBound): void {
  let bytes = 0
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    // What comes behind a response is parsed by nobody.
    if (!res.writableEnded) endpoints.noteBody(chunk.length)
    if (bytes <= maxBytes) return
    if (res.headersSent) req.socket.destroy()
    else refuseBody(res, maxBytes)
  })
}

interface BodyBound {
  readonly endpoints: AdminEndpoints
  readonly maxBytes: number
}

/** Refuses a body without reading it. */
function refuseBody(res: ServerResponse, maxBytes: number): void {
  const error = new ApiError('body_too_large', `the body must not be larger than ${maxBytes / 1024} KiB`)
  res.shouldKeepAlive = false
  respondJson(res, error.status, errorBody(error))
}

/** Share of a worker's time that all requests together may take. Each counts with the time that `node:http` needs to read it and to respond. */
const SHARE = 0.1
const BURST_MS = 20
/** Probes have a share of their own, so that they wait for nothing but other probes. */
const PROBES_SHARE = 0.05
const PROBES: ReadonlySet<string> = new Set(['/livez', '/readyz'])
const REQUEST_MS = 0.05
/** Time per byte of a body, which is how long reading it as JSON takes at worst. */
const BYTE_MS = 0.00006

function isProbe({ url }: IncomingMessage): boolean {
  return PROBES.has(pathOf(url!))
}

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
  readonly #probes = new RequestLine(PROBES_SHARE, (request) => this.#begin(request))
  readonly #others = new RequestLine(SHARE, (request) => this.#begin(request))
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
    this.#turns.take(req, res, () => (isProbe(req) ? this.#probes : this.#others).add({ res, onBegin, address: req.socket.remoteAddress }))
  }

  /** Accounts for this many bytes of a request's body. */
  noteBody(bytes: number): void {
    this.#others.spend(bytes * BYTE_MS)
  }

  #begin({ res, onBegin }: WaitingRequest): void {
    onBegin()
    this.#routes.dispatch(res.req, res, (_res, error) => this.#fail(res, error))
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

interface WaitingRequest {
  readonly res: ServerResponse
  readonly onBegin: () => void
  readonly address: string | undefined
}

/** Requests that wait for their share of a worker's time, one for each connection. Addresses take turns. */
class RequestLine {
  readonly #time: TimeShare
  readonly #begin: (request: WaitingRequest) => void
  readonly #waiting = new ByAddress<WaitingRequest>()
  #isScheduled = false

  constructor(share: number, begin: (request: WaitingRequest) => void) {
    this.#time = new TimeShare(share, BURST_MS, performance.now())
    this.#begin = begin
  }

  spend(ms: number): void {
    this.#time.spend(ms, performance.now())
  }

  add(request: WaitingRequest): void {
    this.#waiting.add(request.address, request)
    if (!this.#isScheduled) this.#beginWaiting()
  }

  /** One timer serves all waiting requests, because a timer for each would cost more than the requests themselves. */
  #beginWaiting(): void {
    for (const request of this.#waiting.inTurn()) {
      const { socket } = request.res.req
      const nowMs = performance.now()
      const waitMs = socket.destroyed ? 0 : this.#time.waitMs(nowMs)
      if (waitMs > 0) return this.#continueIn(waitMs)
      this.#waiting.delete(request.address, request)
      if (socket.destroyed) continue
      this.#time.spend(REQUEST_MS, nowMs)
      this.#begin(request)
    }
  }

  #continueIn(waitMs: number): void {
    this.#isScheduled = true
    setTimeout(() => {
      this.#isScheduled = false
      this.#beginWaiting()
    }, waitMs).unref()
  }
}
