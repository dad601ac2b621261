import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Clock } from '../../clock.ts'
import type { DebugSessions } from '../../decide/debug-sessions.ts'
import { decisionHeaders } from '../../decide/decision-headers.ts'
import { DecisionLog } from '../../decide/decision-log.ts'
import type { Allowed, Decision, Rejected } from '../../engine/decision.ts'
import type { Engine } from '../../engine/engine.ts'
import { REASONS, type Reason } from '../../engine/reasons.ts'
import type { HeaderList } from '../../http/header-list.ts'
import { respondEmpty } from '../../http/respond.ts'
import type { RequestView } from '../../request/view.ts'
import type { DecisionMetrics } from '../../telemetry/metrics/decision-metrics.ts'
import { HttpQuestion } from './http-question.ts'

export interface DecisionEndpointParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: DecisionMetrics
  readonly debugSessions: DebugSessions | undefined
}

/** A POST to /v1/decision, whichever wire it came in on. */
export interface Question {
  /** The original request, or why there is none to be had. A field that comes twice is never guessed. */
  original(): RequestView | Reason
  /** All cookies in one text. */
  cookie(): string | undefined
}

/** What goes back, whichever wire writes it. There is no body. */
export interface DecisionAnswer {
  readonly status: number
  /** What was decided, or else why nothing was. */
  readonly decision: Allowed | Rejected | undefined
  readonly refusal: Reason | undefined
  /** Whether an operator asks, and how long it took. */
  readonly isDebug: boolean
  readonly latencyMs: number
}

/** The fields of an answer, but for those that all answers have. */
export function answerHeaders({ decision, refusal, isDebug, latencyMs }: DecisionAnswer): HeaderList {
  return decision === undefined ? ['X-Edge-Reason', refusal!] : decisionHeaders(decision, isDebug, latencyMs)
}

/** POST /v1/decision: reads the original request from headers, asks the engine, says what to answer. The body is not read. */
export class DecisionEndpoint {
  readonly #parts: DecisionEndpointParts
  readonly #log: DecisionLog
  /** Filled anew for each question: the engine reads it before it returns. */
  readonly #options = { withDescriptors: false, given: undefined, body: undefined, nowMs: 0 }

  constructor(parts: DecisionEndpointParts) {
    this.#parts = parts
    this.#log = new DecisionLog(parts.logger)
  }

  handle(req: IncomingMessage, res: ServerResponse): void {
    const answer = this.decide(new HttpQuestion(req.rawHeaders))
    if (answer instanceof Promise) {
      answer.then((later) => respond(res, later)).catch((error: unknown) => this.fail(res, error))
    } else {
      respond(res, answer)
    }
  }

  /** Never throws and never rejects. Returns at once where the engine does; until then the question must stay as it is. */
  decide(question: Question): DecisionAnswer | Promise<DecisionAnswer> {
    try {
      const answer = this.#decide(question)
      return answer instanceof Promise ? answer.catch((error: unknown) => this.#failure(error)) : answer
    } catch (error) {
      return this.#failure(error)
    }
  }

  /** Something of ours broke, here or at another endpoint. The caller learns that, the log learns what. */
  fail(res: ServerResponse, error: unknown): void {
    if (res.headersSent) {
      this.#noteFailure(error)
      res.destroy()
      return
    }
    respond(res, this.#failure(error))
  }

  #decide(question: Question): DecisionAnswer | Promise<DecisionAnswer> {
    const { engine, clock, debugSessions } = this.#parts
    if (engine.plan === undefined) return this.#refusal('no_bundle_loaded')
    const view = question.original()
    if (typeof view === 'string') return this.#refusal(view)
    const isDebug = debugSessions?.isActive(question.cookie()) ?? false
    const startMs = clock.nowMs()
    this.#options.withDescriptors = isDebug
    this.#options.nowMs = startMs
    const decision = engine.decide(view, this.#options)
    if (decision instanceof Promise) return decision.then((later) => this.#answer(later, startMs, isDebug))
    return this.#answer(decision, startMs, isDebug)
  }

  #answer(decision: Decision, startMs: number, isDebug: boolean): DecisionAnswer {
    if (decision.action === 'refuse') return this.#refusal(decision.reason)
    const nowMs = this.#parts.clock.nowMs()
    this.#parts.metrics.count(decision, nowMs - startMs)
    this.#log.note(decision, nowMs)
    const status = decision.action === 'reject' ? 429 : 200
    return { status, decision, refusal: undefined, isDebug, latencyMs: nowMs - startMs }
  }

  #refusal(reason: Reason): DecisionAnswer {
    this.#parts.metrics.countRefused(reason)
    this.#log.noteRefused(reason, this.#parts.clock.nowMs())
    return { status: REASONS[reason].status, decision: undefined, refusal: reason, isDebug: false, latencyMs: 0 }
  }

  #failure(error: unknown): DecisionAnswer {
    this.#noteFailure(error)
    return this.#refusal('internal_error')
  }

  #noteFailure(error: unknown): void {
    this.#parts.logger.error({ event: 'internal_error', err: error }, 'a request could not be answered')
  }
}

function respond(res: ServerResponse, answer: DecisionAnswer): void {
  respondEmpty(res, answer.status, answerHeaders(answer))
}
