import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { Decision } from '../engine/decision.ts'
import type { Engine } from '../engine/engine.ts'
import type { Reason } from '../engine/reasons.ts'
import type { DebugSessions } from './debug-sessions.ts'
import { decisionHeaders } from './decision-headers.ts'
import { DecisionLog } from './decision-log.ts'
import { cookieHeader, HttpRequestView } from './http-request-view.ts'
import type { DecisionMetrics } from './metrics/decision-metrics.ts'
import { respondEmpty, respondReason } from './respond.ts'

export interface DecisionEndpointParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: DecisionMetrics
  readonly debugSessions: DebugSessions | undefined
}

/** POST /v1/decision: reads the original request from headers, asks the engine, writes the answer. The body is not read. */
export class DecisionEndpoint {
  readonly #parts: DecisionEndpointParts
  readonly #log: DecisionLog

  constructor(parts: DecisionEndpointParts) {
    this.#parts = parts
    this.#log = new DecisionLog(parts.logger)
  }

  handle(req: IncomingMessage, res: ServerResponse): void {
    const { engine, clock } = this.#parts
    if (engine.plan === undefined) return this.#refuse(res, 'no_bundle_loaded')
    const view = readOriginal(req.rawHeaders)
    if (typeof view === 'string') return this.#refuse(res, view)
    const explains = this.#hasDebugSession(req)
    const startMs = clock.nowMs()
    const decision = engine.decide(view, explains)
    if (decision instanceof Promise) {
      decision.then((later) => this.#answer(res, later, startMs, explains)).catch((error: unknown) => this.fail(res, error))
    } else {
      this.#answer(res, decision, startMs, explains)
    }
  }

  /** Something of ours broke. The caller learns that, the log learns what. */
  fail(res: ServerResponse, error: unknown): void {
    this.#parts.logger.error({ event: 'internal_error', err: error }, 'a request could not be answered')
    if (res.headersSent) res.destroy()
    else this.#refuse(res, 'internal_error')
  }

  #answer(res: ServerResponse, decision: Decision, startMs: number, explains: boolean): void {
    if (decision.action === 'refuse') return this.#refuse(res, decision.reason)
    const nowMs = this.#parts.clock.nowMs()
    this.#parts.metrics.count(decision, nowMs - startMs)
    this.#log.note(decision, nowMs)
    respondEmpty(res, decision.action === 'reject' ? 429 : 200, decisionHeaders(decision, explains, nowMs - startMs))
  }

  #refuse(res: ServerResponse, reason: Reason): void {
    this.#parts.metrics.countRefused(reason)
    this.#log.noteRefused(reason, this.#parts.clock.nowMs())
    respondReason(res, reason)
  }

  #hasDebugSession(req: IncomingMessage): boolean {
    const { debugSessions } = this.#parts
    return debugSessions?.isActive(cookieHeader(req.rawHeaders)) ?? false
  }
}

/** The original request, or why there is none to be had. A field that comes twice is never guessed. */
function readOriginal(rawHeaders: readonly string[]): HttpRequestView | Reason {
  let method: string | undefined
  let uri: string | undefined
  let host: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const field = rawHeaders[i]!
    if (field.length < 14 || field.length > 17) continue
    switch (field.toLowerCase()) {
      case 'x-original-method':
        if (method !== undefined) return 'repeated_original_method'
        method = rawHeaders[i + 1]!
        break
      case 'x-original-uri':
        if (uri !== undefined) return 'repeated_original_uri'
        uri = rawHeaders[i + 1]!
        break
      case 'x-original-host':
        if (host !== undefined) return 'repeated_original_host'
        host = rawHeaders[i + 1]!
        break
    }
  }
  if (!method) return 'missing_original_method'
  if (!uri) return 'missing_original_uri'
  return new HttpRequestView(rawHeaders, method, uri, host ?? '')
}
