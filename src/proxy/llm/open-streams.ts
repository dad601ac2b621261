import type { Logger } from 'pino'
import type { StreamBody } from '../../engine/decide-options.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import { type CallerVerdict, isVerified } from '../../request/caller.ts'
import type { RequestView } from '../../request/view.ts'
import type { BackendMetrics } from '../../telemetry/metrics/backend-metrics.ts'
import { inSlices } from '../../time/slices.ts'

/** An event stream or a WebSocket in progress. */
export interface OpenStream {
  /** The request as the engine sees it, and the facts of its body. */
  readonly view: RequestView
  readonly body: StreamBody
  /** Who sent it, as its decision found out; undefined if the bundle had no `callers`. */
  readonly caller: CallerVerdict | undefined
  /** Ends the stream early. */
  cut(): void
}

/** A request that a backend has got, and of which not all of the response has come. */
export interface ExpectedResponse {
  /** Ends it, because its key was revoked. */
  endRevoked(): void
}

interface StreamParts {
  readonly engine: Pick<Engine, 'plan' | 'active' | 'cutsStreams' | 'cutsStreamsByOverride' | 'findStreamCut'>
  readonly metrics: Pick<BackendMetrics, 'openStreams' | 'countStreamCut'>
  readonly logger: Logger
  /** The clock of the moments at which overrides come into force. */
  readonly nowMs: () => number
}

/** The open streams of one worker, which blocks and revocations can end. */
export class OpenStreams {
  readonly #parts: StreamParts
  readonly #streams = new Set<OpenStream>()
  /** All requests of issued keys that have been sent to a backend, by who sent them; those with a stream too. */
  readonly #expected = new Map<ExpectedResponse, string>()
  /** How often requests were ended because their keys were revoked: one that was decided before may have to be looked at again. */
  revocations = 0
  /** When blocks come into force that end streams: as many as there are such overrides, at most. */
  readonly #moments = new Set<number>()
  #timer: NodeJS.Timeout | undefined
  /** Passes over the streams follow each other, so that each logs all that it cut. */
  #cutting: Promise<void> = Promise.resolve()

  constructor(parts: StreamParts) {
    this.#parts = parts
  }

  /**
   * `decidedBy` is the plan that allowed the request. If another plan is active by now, or an override that ends streams has come into force since, the
   * stream may be cut before this returns.
   */
  add(stream: OpenStream, decidedBy: Plan | undefined): void {
    const { engine, metrics } = this.#parts
    this.#streams.add(stream)
    metrics.openStreams.count++
    if (decidedBy === engine.plan && !engine.cutsStreamsByOverride) return
    const cuts = new Map<PlanRule, number>()
    this.#cutIfBlocked(stream, cuts)
    this.#log(cuts)
  }

  delete(stream: OpenStream): void {
    if (this.#streams.delete(stream)) this.#parts.metrics.openStreams.count--
  }

  /** `caller` is who sent the request. Whatever ends it, `forget` must be called. */
  expect(response: ExpectedResponse, caller: CallerVerdict | undefined): void {
    if (caller !== undefined && isVerified(caller) && isKey(caller)) this.#expected.set(response, caller.id)
  }

  forget(response: ExpectedResponse): void {
    this.#expected.delete(response)
  }

  /** Whether a request that was decided when there had been this many revocations has a key that was revoked since then, and no longer passes. */
  isRevokedSince(revocations: number, view: RequestView): boolean {
    if (revocations === this.revocations) return false
    const { active } = this.#parts.engine
    const verdict = active?.plan.callers?.mode === 'enforce' && active.callers?.read(view, () => undefined)
    return typeof verdict === 'object' && 'problem' in verdict && verdict.problem === 'revoked'
  }

  /** Ends the streams, WebSockets and other requests of these callers. Resolves to their number when all that were open have been looked at. */
  async endCallers(ids: ReadonlySet<string>): Promise<number> {
    this.revocations++
    const ended = await inSlices(this.#endAll(ids))
    if (ended > 0)
      this.#parts.logger.info({ event: 'key_requests_ended', requests: ended }, 'requests were ended because their keys were revoked')
    return ended
  }

  /** Streams first: their ends have the form of their dialects. */
  *#endAll(ids: ReadonlySet<string>): Generator<void, number> {
    let ended = 0
    for (const stream of [...this.#streams]) {
      yield
      const { caller } = stream
      if (!this.#streams.has(stream) || caller === undefined || !isVerified(caller) || !ids.has(caller.id)) continue
      this.delete(stream)
      if (this.#endOne(() => stream.cut())) ended++
    }
    for (const [response, id] of [...this.#expected]) {
      yield
      if (ids.has(id) && this.#expected.get(response) === id && this.#endOne(() => response.endRevoked())) ended++
    }
    return ended
  }

  /** One that cannot be ended does not keep the others from it. */
  #endOne(end: () => void): boolean {
    try {
      end()
      return true
    } catch (error) {
      this.#parts.logger.error({ event: 'internal_error', err: error }, 'a request of a revoked key could not be ended')
      return false
    }
  }

  /** Cuts streams at the moment when a block comes into force. */
  cutBlockedAt(atMs: number): void {
    this.#moments.add(atMs)
    this.#wait()
  }

  /**
   * Cuts the streams that a block in force covers. There may be thousands, so this takes several turns of the event loop. Resolves when all that were open
   * have been looked at.
   */
  cutBlocked(): Promise<void> {
    this.#cutting = this.#cutting.then(() => this.#cutBlocked())
    return this.#cutting
  }

  async #cutBlocked(): Promise<void> {
    const { engine, logger } = this.#parts
    if (!engine.cutsStreams) return
    try {
      this.#log(await inSlices(this.#cutAll()))
    } catch (error) {
      logger.error({ event: 'internal_error', err: error }, 'blocked streams could not be cut')
    }
  }

  #wait(): void {
    clearTimeout(this.#timer)
    if (this.#moments.size === 0) return
    const waitMs = Math.min(...this.#moments) - this.#parts.nowMs()
    this.#timer = setTimeout(() => this.#cutDue(), Math.max(0, Math.ceil(waitMs))).unref()
  }

  /** A timer may fire a little early, in which case it is set again. */
  #cutDue(): void {
    const nowMs = this.#parts.nowMs()
    const due = [...this.#moments].filter((atMs) => atMs <= nowMs)
    for (const atMs of due) this.#moments.delete(atMs)
    if (due.length > 0) void this.cutBlocked()
    this.#wait()
  }

  /** Streams that begin meanwhile were decided by the active plan, or were checked when they were added. */
  *#cutAll(): Generator<void, Map<PlanRule, number>> {
    const cuts = new Map<PlanRule, number>()
    for (const stream of [...this.#streams]) {
      if (this.#streams.has(stream)) this.#cutIfBlocked(stream, cuts)
      yield
    }
    return cuts
  }

  /** A stream that cannot be cut does not keep the others from being cut. */
  #cutIfBlocked(stream: OpenStream, cuts: Map<PlanRule, number>): void {
    const { engine, metrics, logger } = this.#parts
    try {
      const rule = engine.findStreamCut(stream.view, stream.body, stream.caller)
      if (rule === undefined) return
      this.delete(stream)
      stream.cut()
      metrics.countStreamCut(rule)
      cuts.set(rule, (cuts.get(rule) ?? 0) + 1)
    } catch (error) {
      logger.error({ event: 'internal_error', err: error }, 'a blocked stream could not be cut')
    }
  }

  #log(cuts: ReadonlyMap<PlanRule, number>): void {
    for (const [rule, streams] of cuts) {
      const what = { event: 'streams_cut', policy: rule.policy.id, rule: rule.name, streams }
      this.#parts.logger.info(what, 'streams were ended because a block covers them')
    }
  }
}

/** No entry for tokens is named `key`. */
function isKey({ id }: { readonly id: string }): boolean {
  return id.startsWith('key:')
}
