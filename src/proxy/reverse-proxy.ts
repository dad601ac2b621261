import type { Logger } from 'pino'
import { decideInSteps, type ReadCost } from '../decide/decide-in-steps.ts'
import { answerHeaders, type DecisionAnswer } from '../decide/decision-answer.ts'
import type { DecisionPipeline } from '../decide/decision-pipeline.ts'
import { PendingDecision } from '../decide/pending-decision.ts'
import { pushRetryAfter, RateLimitText } from '../decide/rate-limit-fields.ts'
import type { Allowed } from '../engine/decision.ts'
import type { Engine } from '../engine/engine.ts'
import { REASONS, type Reason } from '../engine/reasons.ts'
import type { Reservation } from '../engine/reservation.ts'
import { cookieHeader, type HeaderList } from '../http1/header-fields.ts'
import { mayAskForUsage, type UsageRequest, withUsageRequest } from '../llm/ask-usage.ts'
import type { LlmRequest } from '../llm/llm-request.ts'
import { estimatedCounts } from '../llm/usage.ts'
import type { CallerVerdict } from '../request/caller.ts'
import type { TrustedProxies } from '../request/client-address.ts'
import type { BackendMetrics } from '../telemetry/metrics/backend-metrics.ts'
import type { CostMetrics, InFlightMetrics, LlmMetrics } from '../telemetry/metrics/llm-metrics.ts'
import type { WaitMetrics } from '../telemetry/metrics/wait-metrics.ts'
import { Sampler } from '../telemetry/sampler.ts'
import type { Tracing } from '../telemetry/tracing/tracing.ts'
import { normalizePath } from '../text/path.ts'
import type { Clock } from '../time/clock.ts'
import { WorkSlices } from '../time/slices.ts'
import { traceIdOf } from '../usage-log/usage-line.ts'
import type { Backend } from './backend/backend.ts'
import type { BackendFailure } from './backend/backend-failure.ts'
import { RoutedAttempts } from './backends/routed-attempts.ts'
import type { RoutedBackends } from './backends/routed-backends.ts'
import type { BodyClaims } from './body/body-claims.ts'
import { type BodyMemory, bodyHolders } from './body/body-memory.ts'
import { codingOf } from './body/body-scan.ts'
import { inviteBody, readBody } from './body/request-body.ts'
import { type Downstream, headerLines, linesOf } from './downstream.ts'
import { rejectMessage, respondError } from './error-response.ts'
import { Exchanges } from './exchanges.ts'
import { Incoming, type IncomingHandler } from './incoming.ts'
import { basePathOf } from './incoming-request.ts'
import type { LlmResponseParts } from './llm/llm-response.ts'
import { lookupOf } from './llm/lookup.ts'
import type { HeldRequest, OpenHolds } from './llm/open-holds.ts'
import { OpenStreams } from './llm/open-streams.ts'
import { type NoteUsage, Settlement } from './llm/settlement.ts'
import { type ProxiedRequest, ProxiedRequestView, refusalOf } from './proxied-request.ts'
import { WaitingRoom } from './waiting/waiting-room.ts'

export interface ProxyParts {
  readonly pipeline: DecisionPipeline
  readonly engine: Engine
  readonly clock: Clock
  readonly logger: Logger
  /** `EDGE_BACKEND_URL`; undefined if there is none. */
  readonly backend: Backend | undefined
  readonly routed: RoutedBackends
  readonly idleTimeoutMs: number
  readonly holds: OpenHolds
  readonly llmMetrics: LlmMetrics
  readonly costMetrics: CostMetrics
  readonly inFlightMetrics: InFlightMetrics
  readonly backendMetrics: BackendMetrics
  readonly backendHost: 'backend' | 'client'
  readonly maxBodyBytes: number
  readonly maxWaiting: number
  readonly waitMetrics: WaitMetrics
  readonly bodyMemory: BodyMemory
  readonly bodyClaims: BodyClaims
  readonly trustedProxies: TrustedProxies
  /** Undefined if nothing is traced. */
  readonly tracing?: Tracing | undefined
  /** Undefined if EDGE_USAGE_DIR is not set. */
  readonly noteUsage?: NoteUsage | undefined
}

/** Stands between clients and the backend: decides on each request, then forwards it or responds itself. */
export class ReverseProxy {
  readonly #parts: ProxyParts
  /** By reason, and by backend if a route names it. */
  readonly #failures = new Sampler<string>(new Map())
  readonly #sampled = new Sampler<string>(new Map(), 1, 60_000)
  /** Bodies and responses of all requests share these slices. */
  readonly #slices = new WorkSlices()
  readonly #rateLimitText = new RateLimitText('')
  readonly #openStreams: OpenStreams
  readonly #basePath: string
  readonly #exchanges: Exchanges
  readonly #room: WaitingRoom
  readonly #handler: IncomingHandler

  constructor(parts: ProxyParts) {
    this.#parts = parts
    this.#openStreams = new OpenStreams({
      engine: parts.engine,
      metrics: parts.backendMetrics,
      logger: parts.logger,
      nowMs: () => parts.clock.nowMs(),
    })
    this.#exchanges = new Exchanges({
      openStreams: this.#openStreams,
      backend: parts.backend,
      idleTimeoutMs: parts.idleTimeoutMs,
      metrics: parts.backendMetrics,
      bodyMemory: parts.bodyMemory,
      nowMs: () => parts.clock.nowMs(),
      onFailure: (downstream, failure, fields) => this.#failBackend(downstream, failure, fields),
      onRevoked: (downstream) => this.#endRevoked(downstream),
      onBroken: (downstream, error) => (downstream === undefined ? parts.pipeline.logFailure(error) : this.#fail(downstream, error, true)),
    })
    this.#basePath = basePathOf(parts.backend?.options.url)
    this.#room = new WaitingRoom({
      maxWaiting: parts.maxWaiting,
      nowMs: () => parts.clock.nowMs(),
      after: (ms, callback) => {
        const timer = setTimeout(callback, ms)
        return () => clearTimeout(timer)
      },
      bodyMemory: parts.bodyMemory,
      metrics: parts.waitMetrics,
    })
    this.#handler = {
      trustedProxies: parts.trustedProxies,
      readBody: (incoming, isEnforced, isRouted) => this.#readBody(incoming, isEnforced, isRouted ? '' : this.#basePath),
      decideAgain: (incoming) => this.#decideSafely(incoming),
      onGone: ({ downstream }) => this.#endGone(downstream),
      onBroken: (incoming, error) => this.#failIncoming(incoming, error),
    }
  }

  /** Never throws: an error becomes a response too. */
  handle(request: ProxiedRequest, downstream: Downstream): void {
    try {
      this.#decide(request, downstream)
    } catch (error) {
      this.#fail(downstream, error)
    }
  }

  #decide(request: ProxiedRequest, downstream: Downstream): void {
    const { tracing } = this.#parts
    const view = new ProxiedRequestView(request, downstream.peer)
    if (tracing !== undefined) downstream.trace = tracing.startRequest(view, view.header('traceparent'))
    const refusal = refusalOf(request, this.#basePath)
    if (refusal !== undefined) return this.refuse(downstream, 'bad_request', refusal)
    this.#decideIncoming(new Incoming(request, view, downstream, this.#handler))
  }

  /** Decides a request, for the first time or after it has waited. */
  #decideIncoming(incoming: Incoming): void {
    const { pipeline, engine, maxBodyBytes } = this.#parts
    const { request, view, downstream } = incoming
    // The plan is read first, because another thread may activate the next one at any moment.
    const { plan } = engine
    if (plan?.hasWaits === true) incoming.waiter ??= this.#room.open(incoming)
    const cookie = request.hasCookie ? cookieHeader(request.fields) : undefined
    const pending = pipeline.open('proxy', view, cookie, downstream.trace, incoming.waiter)
    if (!(pending instanceof PendingDecision)) {
      incoming.endWait('refused')
      incoming.releaseBody()
      return this.#respondRefused(downstream, pending.refusal)
    }
    incoming.plan = plan
    incoming.revocations = this.#openStreams.revocations
    incoming.pending = pending
    const answer = decideInSteps(pending, incoming, maxBodyBytes)
    if (answer instanceof Promise) void this.#respondLater(incoming, answer)
    else this.#respond(incoming, answer)
  }

  #decideSafely(incoming: Incoming): void {
    try {
      this.#decideIncoming(incoming)
    } catch (error) {
      this.#failIncoming(incoming, error)
    }
  }

  /** Never rejects. */
  async #respondLater(incoming: Incoming, answer: Promise<DecisionAnswer | undefined>): Promise<void> {
    try {
      this.#respond(incoming, await answer)
    } catch (error) {
      this.#failIncoming(incoming, error)
    }
  }

  #failIncoming(incoming: Incoming, error: unknown): void {
    incoming.endWait('refused')
    incoming.releaseBody()
    this.#fail(incoming.downstream, error)
  }

  /** Handles an error of our own code. The client learns that there was one, the log says which. */
  #fail(downstream: Downstream, error: unknown, isDecided = false): void {
    const { pipeline } = this.#parts
    if (downstream.isHeadSent) {
      pipeline.logFailure(error)
      downstream.trace?.noteFailure('internal_error')
      downstream.trace?.end()
      return downstream.cut()
    }
    const { refusal } = isDecided ? pipeline.failDecided(error) : pipeline.fail('proxy', error)
    this.#respondRefused(downstream, refusal)
  }

  /** Ends the streams that blocks in force cover, those of a plan that has become active or of an override. Resolves when all have been looked at. */
  cutBlockedStreams(): Promise<void> {
    return this.#openStreams.cutBlocked()
  }

  /** Ends the streams that a block covers, at the moment when it comes into force. */
  cutBlockedStreamsAt(atMs: number): void {
    this.#openStreams.cutBlockedAt(atMs)
  }

  /** Ends the requests of these callers that are under way, and returns how many. */
  endCallers(ids: ReadonlySet<string>): Promise<number> {
    return this.#openStreams.endCallers(ids)
  }

  #endRevoked(downstream: Downstream): void {
    downstream.trace?.end()
    if (downstream.isHeadSent) downstream.reset()
    else this.#respondRefused(downstream, 'unknown_caller')
  }

  /** Ends the waits of all requests that wait for a rule: each is decided for the last time. */
  endWaits(): void {
    this.#room.close()
  }

  /** Records a request that could not even be read. */
  noteMalformed(detail: string): void {
    this.#parts.pipeline.refuse('proxy', 'bad_request', detail)
  }

  async #readBody(incoming: Incoming, isEnforced: boolean, basePath: string): Promise<ReadCost> {
    const { maxBodyBytes, bodyClaims, bodyMemory, trustedProxies, idleTimeoutMs } = this.#parts
    const { request, downstream, pending } = incoming
    const holders = request.hasBody ? bodyHolders(bodyMemory, trustedProxies, pending.bodyCaller(), incoming.view, downstream.peer) : []
    const options = { maxBytes: maxBodyBytes, idleTimeoutMs, isEnforced, slices: this.#slices, basePath, holders }
    const body = await readBody(request, downstream, bodyClaims, options, incoming.body)
    if (body === undefined) return 'gone'
    incoming.body = body
    const { llm } = body
    if (typeof llm === 'string') return llm
    incoming.llm = llm
    downstream.trace?.noteBody(llm)
    return llm
  }

  /** An undefined answer means that the client is gone and nothing was taken. */
  #respond(incoming: Incoming, answer: DecisionAnswer | undefined): void {
    if (answer?.decision?.action === 'reject' && answer.decision.isWaiting) return incoming.wait()
    incoming.endWaitBy(answer)
    if (answer === undefined) this.#endGone(incoming.downstream)
    else this.#respondDecided(incoming, answer)
    // The exchange releases the body of a request that was forwarded.
    incoming.releaseBody()
  }

  #respondDecided(incoming: Incoming, answer: DecisionAnswer): void {
    const { downstream } = incoming
    const { decision } = answer
    downstream.trace?.noteDecision(answer)
    try {
      if (decision === undefined) this.#respondRefused(downstream, answer.refusal, incoming.refusalDetail, answerHeaders(answer))
      else if (decision.action === 'reject')
        respondError(downstream, decision.reason, rejectMessage(decision, this.#parts.clock.wallMs()), answerHeaders(answer))
      else this.#admit(incoming, decision, answer)
    } catch (error) {
      this.#fail(downstream, error, true)
    }
  }

  /** Keeps the holds first, so that they are released whatever becomes of the request. */
  #admit(incoming: Incoming, { reservation, caller }: Allowed, answer: DecisionAnswer): void {
    const held = reservation === undefined || reservation.holds.length === 0 ? undefined : this.#parts.holds.keep(reservation.holds)
    try {
      this.#forward(incoming, caller, reservation, held, this.#linesOf(answer))
    } catch (error) {
      held?.release()
      throw error
    }
  }

  /** Returns the lines of an answer's fields. */
  #linesOf(answer: DecisionAnswer): string {
    const { decision, isDebug } = answer
    const isUsual = !isDebug && decision?.limit !== undefined && decision.action === 'allow'
    return isUsual ? this.#rateLimitText.of(decision.limit) : linesOf(answerHeaders(answer))
  }

  #forward(
    incoming: Incoming,
    caller: CallerVerdict | undefined,
    reservation: Reservation | undefined,
    held: HeldRequest | undefined,
    fields: string,
  ): void {
    const { backend, backendHost, routed } = this.#parts
    const { request, view, plan, downstream, pending } = incoming
    const isCounted = reservation !== undefined && reservation.charges.length > 0
    const asked = isCounted ? this.#askForUsage(incoming, reservation) : undefined
    const body = typeof asked === 'object' ? { ...incoming.body!, bytes: asked.bytes } : incoming.body
    const llm = isCounted && incoming.llm !== undefined ? this.#llmParts(reservation, incoming, incoming.llm, asked) : undefined
    const isRevoked = this.#openStreams.isRevokedSince(incoming.revocations, view)
    if (downstream.isGone || isRevoked) {
      // The client left, or its key was revoked, while its body was read or the store was asked.
      held?.release()
      pending.noteSent(undefined)
      llm?.settlement.settle('client_gone', estimatedCounts(llm.request.promptTokens, 0))
      return isRevoked ? this.#endRevoked(downstream) : this.#endGone(downstream)
    }
    if (body === undefined) inviteBody(request, downstream)
    const attempts = pending.chosen && new RoutedAttempts(routed, pending.chosen, incoming)
    const inserted = attempts && typeof asked === 'object' ? incoming.insertion(asked.bytes) : undefined
    const host = backendHost === 'client' && request.host !== '' ? request.host : (backend?.options.url.host ?? '')
    const target = request.target === '*' ? '*' : `${this.#basePath}${request.target}`
    const allowed = { request, downstream, fields, llm, held, view, body: incoming.llm, plan, caller, host, target, attempts, inserted }
    this.#exchanges.begin(allowed, body)
    incoming.body = undefined
  }

  /** Makes the body ask for the provider's count if a rule wants it. Returns undefined if none does, or if the stream has a count anyway. */
  #askForUsage({ request, body, llm }: Incoming, { charges }: Reservation): UsageRequest | undefined {
    const isWanted = charges.some(({ rule }) => rule.asksUsage && !rule.policy.isShadow) && !this.#parts.engine.isShadowed
    if (!isWanted || llm?.isStream !== true || !mayAskForUsage(normalizePath(request.target))) return undefined
    const isPlain = codingOf(request.header('content-encoding')) === 'identity'
    if (body === undefined || body.isPartial || llm.isUnreadable === true || !isPlain) return 'unchanged'
    return withUsageRequest(body.bytes, llm.streamOptionsAt)
  }

  #llmParts(
    reservation: Reservation,
    { request, view, downstream }: Incoming,
    llm: LlmRequest,
    asked: UsageRequest | undefined,
  ): LlmResponseParts {
    const { engine, logger, clock, llmMetrics: metrics, costMetrics, inFlightMetrics, noteUsage } = this.#parts
    const isActivated = llm.isStream || /(?:^|[\s,])text\/event-stream\s*(?:[;,]|$)/i.test(request.header('accept') ?? '')
    const sampled = this.#sampled
    const settlement = new Settlement(reservation, llm, {
      engine,
      metrics,
      costMetrics,
      inFlightMetrics,
      logger,
      clock,
      sampled,
      trace: downstream.trace,
      traceId: noteUsage && (downstream.trace?.traceId ?? traceIdOf(view.header('traceparent'))),
      noteUsage,
    })
    const lookup = lookupOf(request, llm)
    const [hidesUsage, isUnasked] = [typeof asked === 'object' && !asked.isForClient, asked === 'unchanged']
    return { settlement, request: llm, isActivated, hidesUsage, isUnasked, ...lookup, slices: this.#slices, metrics, logger }
  }

  /** Handles a backend that sent no response, or not the whole of it. Half a response is reset, not ended as if it were whole. */
  #failBackend(downstream: Downstream, failure: BackendFailure, lines: string): void {
    const { backendMetrics, logger, clock } = this.#parts
    const { code, message, backend } = failure
    backendMetrics.countFailure(code)
    const unlogged = this.#failures.admit(backend === undefined ? code : `${code} ${backend}`, clock.nowMs())
    if (unlogged !== undefined)
      logger.warn(
        { event: 'backend_failed', reason: code, backend, detail: message, unlogged },
        `a request got no complete response from ${backend === undefined ? 'the backend' : `backend ${backend}`}`,
      )
    downstream.trace?.noteFailure(code)
    if (downstream.isHeadSent) {
      downstream.trace?.end()
      downstream.reset()
    } else {
      const fields = headerLines(lines)
      const retryAfterMs = failure.retryAfterMs ?? (code === 'backend_busy' ? 1000 : undefined)
      if (retryAfterMs !== undefined) pushRetryAfter(fields, Math.ceil(retryAfterMs / 1000))
      respondError(downstream, code, REASONS[code].meaning, fields)
    }
  }

  /** Ends the trace of a request whose client left before it was forwarded. */
  #endGone({ trace }: Downstream): void {
    trace?.noteGone()
    trace?.end()
  }

  /** Refuses a request that cannot be decided. `detail` is for the client and the log. */
  refuse(downstream: Downstream, reason: Reason, detail?: string): void {
    this.#parts.pipeline.refuse('proxy', reason, detail)
    this.#respondRefused(downstream, reason, detail)
  }

  /** `fields` are those of the refusal, if it was decided. */
  #respondRefused(downstream: Downstream, reason: Reason, detail?: string, fields: HeaderList = []): void {
    // RFC 9110 15.5.9: after an upload that was given up, the connection is closed
    if (reason === 'bad_request' || reason === 'upload_too_slow') downstream.closeWhenDone()
    const own = reason === 'body_memory_exhausted' ? [...fields, 'Retry-After', '1'] : fields
    respondError(downstream, reason, detail ?? REASONS[reason].meaning, own)
  }
}
