import type { Transform } from 'node:stream'
import { headerValue } from '../../http1/header-fields.ts'
import { asksForTokens } from '../../llm/llm-request.ts'
import { StreamFilter } from '../../llm/stream-filter.ts'
import type { StreamExcess } from '../../llm/stream-rules.ts'
import { estimatedCounts, estimatedTokens } from '../../llm/usage.ts'
import type { PlanRule } from '../../policy/plan.ts'
import type { ResponseHead } from '../backend/response-head.ts'
import { type Coding, codingOf, newDecoder } from '../body/body-scan.ts'
import { StreamGrowth } from './growth.ts'
import { type LlmResponse, type LlmResponseParts, type ResponseFlow, WholeResponse } from './llm-response.ts'
import type { PassedSize } from './settlement.ts'

/**
 * An SSE response. Its bytes go through the filter if an enforcing rule watches a stream that the client asked for, or if usage must be hidden;
 * otherwise they pass unchanged, and the filter only counts.
 */
export class StreamedResponse implements LlmResponse {
  readonly isFiltered: boolean
  readonly isDecoded: boolean
  readonly #parts: LlmResponseParts
  readonly #flow: ResponseFlow
  readonly #status: number
  /** Undefined if no rule counts streams, or if the bytes cannot be read; then the stream is settled as unread. */
  #filter: StreamFilter<PlanRule> | undefined
  /** Set if reservations grow with the stream. */
  readonly #growth: StreamGrowth | undefined
  /** What is reserved is used up, and more was asked for: nothing is read until the answer comes. */
  isWaiting = false
  #isClientBlocked = false
  readonly #coding: Coding | undefined
  #decoder: Transform | undefined
  #isDecoderDone = false
  /** Set when the backend has sent everything but the decoder is not done yet. */
  #onDecoded: (() => void) | undefined
  #loggedWouldCuts = 0
  #hasBytes = false
  /** The size of a stream in a coding that cannot be decoded; undefined if no rule counts it. */
  #codedBytes: number | undefined
  /** Runs out if the provider's count does not follow the end of the stream, whose connection may stay open. */
  #countTimer: NodeJS.Timeout | undefined
  /** The stream is counted among the open ones. */
  #isOpen = true

  constructor(head: ResponseHead, parts: LlmResponseParts, flow: ResponseFlow) {
    const { settlement, request, isActivated, hidesUsage } = parts
    this.#parts = parts
    this.#flow = flow
    this.#status = head.status
    const charged = settlement.reservation.charges.map(({ rule }) => rule)
    const rules = charged.filter(({ llm }) => llm?.streaming.enabled)
    const coding = codingOf(headerValue(head.fields, 'content-encoding'))
    // Other budgets of money have no settings for streams: they always count, and never change a stream.
    const isCounted = rules.length > 0 || charged.some(({ llm }) => llm === undefined)
    const isRead = isCounted && coding !== undefined
    const beganShadowed = settlement.isShadowed
    const isShadowed = () => beganShadowed || settlement.isShadowed
    const { promptTokens: promptEstimate, dialect } = request
    const mayChange = isActivated && !beganShadowed && rules.some(({ policy }) => !policy.isShadow)
    this.isFiltered = isRead && (mayChange || hidesUsage)
    const { growing } = settlement
    if (isRead && growing.length > 0) this.#growth = new StreamGrowth(growing, this.isFiltered, () => this.#onGrown())
    if (isRead) {
      const meter = this.#growth
      const stopsAtEnd = this.isFiltered
      this.#filter = new StreamFilter({ rules, promptEstimate, isActivated, hidesUsage, isShadowed, dialect, meter, stopsAtEnd })
      const filter = this.#filter
      settlement.seen = () => filter.charged
    } else {
      if (isCounted) this.#codedBytes = 0
      if (head.status < 400) settlement.reserveAll()
    }
    this.#coding = isRead ? coding : undefined
    this.isDecoded = this.isFiltered && coding !== 'identity'
    parts.metrics.openStreams.count++
  }

  get isBetweenEvents(): boolean {
    return this.isFiltered && this.#filter!.isBetweenEvents
  }

  read(chunk: Buffer): void {
    this.#hasBytes = true
    if (!this.isFiltered) this.#flow.deliver(chunk)
    if (this.#codedBytes !== undefined) this.#codedBytes += chunk.length
    if (this.#coding === undefined || this.#coding === 'identity') return this.#pass(chunk)
    this.#decoder ??= this.#newDecoder(this.#coding)
    // Some codings mark their own end; bytes after it are ignored. The chunk is copied because a decoder keeps what is written to it for a while.
    if (!this.#isDecoderDone && !this.#decoder.write(Buffer.from(chunk))) this.#flow.pauseBackend()
  }

  end(onEnded: () => void): void {
    const decoder = this.#decoder
    if (decoder === undefined || this.#isDecoderDone) {
      this.#finish()
      return onEnded()
    }
    this.#onDecoded = () => {
      this.#finish()
      if (this.isFiltered) onEnded()
    }
    decoder.end()
    if (!this.isFiltered) onEnded()
  }

  /** Ends the stream because its caller is blocked, in the same way as a stream that exceeds a limit. */
  cut(): void {
    const filter = this.#filter
    const closing = this.isFiltered ? filter!.close() : undefined
    this.#settleBroken('truncated', filter)
    this.#decoder?.destroy()
    if (closing !== undefined && closing.length > 0) this.#flow.deliver(closing)
    this.#flow.cut()
  }

  clientGone(): void {
    this.#settleBroken('client_gone', this.#filter)
    this.#decoder?.destroy()
  }

  /** What has passed and what the provider has counted is charged, whoever broke the stream. */
  backendFailed(): void {
    const filter = this.#filter
    if (filter?.hasEnded) this.#settleDone(filter)
    const isError = filter?.hasFailed === true || (this.#status >= 400 && filter?.hasUsage !== true)
    const hasPassed = filter === undefined ? this.#hasBytes : filter.isUnderstood || filter.isOpaque
    if (isError) this.#settle(() => this.#parts.settlement.giveBack('backend_failed'))
    else if (hasPassed) this.#settleBroken('backend_failed', filter)
    else this.#settle(() => this.#settleEmpty())
    this.#decoder?.destroy()
  }

  #settleEmpty(): void {
    const { settlement, isLookup } = this.#parts
    if (isLookup) settlement.giveBack('backend_failed')
    else settlement.settleUnfinished()
  }

  /** A stream that is only counted is not paused: counting goes on. */
  pause(): void {
    this.#isClientBlocked = true
    if (this.isFiltered) this.#decoder?.pause()
  }

  resume(): void {
    this.#isClientBlocked = false
    if (!this.isWaiting) this.#decoder?.resume()
  }

  /** Filters or counts decoded bytes. */
  #pass(bytes: Buffer): void {
    try {
      this.#filterBytes(bytes)
    } catch (error) {
      this.#onBroken(error)
    }
  }

  #filterBytes(bytes: Buffer): void {
    const filter = this.#filter
    if (filter === undefined) return
    const passed = filter.push(bytes)
    this.#afterPass(filter)
    if (!this.isFiltered) return
    if (passed.length > 0) this.#flow.deliver(passed)
    if (filter.cut === undefined && !filter.hasOverrun) return this.#waitForGrowth()
    this.#decoder?.destroy()
    this.#flow.cut()
  }

  /** A stream whose last event has come waits for no answer, because an answer after the settlement does not make it go on. */
  #waitForGrowth(): void {
    const mustWait = this.#growth?.mustWait === true && !this.#parts.settlement.isSettled
    if (mustWait === this.isWaiting) return
    if (!mustWait) return this.#goOn()
    this.isWaiting = true
    this.#decoder?.pause()
    this.#flow.holdBackend()
  }

  /** Called when a reservation that was asked to grow has been answered, at some later time. */
  #onGrown(): void {
    const filter = this.#filter
    if (filter === undefined || this.#parts.settlement.isSettled) return
    this.#guard(() => {
      const end = this.#growth!.notice(filter.counts)
      // Within an event that passes in parts, the filter cuts behind it.
      const isCut = end !== undefined && filter.isBetweenEvents && !filter.hasFinished && !this.#parts.settlement.isShadowed
      const closing = isCut ? filter.endAt(end) : undefined
      this.#afterPass(filter)
      if (closing !== undefined) {
        this.#decoder?.destroy()
        this.#flow.deliver(closing)
        this.#flow.cut()
      } else if (this.isWaiting && !this.#growth!.mustWait) this.#goOn()
    })
  }

  #goOn(): void {
    this.isWaiting = false
    if (!this.#isClientBlocked) this.#decoder?.resume()
    this.#flow.resumeBackend()
  }

  #finish(): void {
    const filter = this.#filter
    if (filter === undefined) return this.#settle(() => this.#settleUnread())
    try {
      const rest = filter.end()
      this.#afterPass(filter)
      this.#settleDone(filter)
      if (this.isFiltered && rest.length > 0) this.#flow.deliver(rest)
    } catch (error) {
      this.#onBroken(error)
    }
  }

  #newDecoder(coding: 'gzip' | 'deflate' | 'br'): Transform {
    const decoder = newDecoder(coding)
    decoder.on('data', (bytes: Buffer) => {
      this.#guard(() => {
        this.#pass(bytes)
        this.#flow.flush()
      })
    })
    decoder.on('drain', () => {
      if (!this.isWaiting) this.#flow.resumeBackend()
    })
    decoder.on('end', () => {
      this.#isDecoderDone = true
      this.#flow.resumeBackend()
      this.#guard(() => this.#onDecoded?.())
    })
    decoder.on('error', (error) => this.#guard(() => this.#onDamaged(error)))
    return decoder
  }

  /** Catches what the decoder's events throw: nobody else would, and it would end the worker. */
  #guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#flow.abandon(error)
    }
  }

  /** Handles bytes that do not decode as Content-Encoding says. */
  #onDamaged(error: Error): void {
    if (this.isFiltered) this.#flow.failDamaged(error)
    else this.#stopCounting()
  }

  #onBroken(error: unknown): void {
    if (this.isFiltered) return this.#flow.abandon(error)
    this.#parts.logger.error({ event: 'internal_error', err: error }, 'a stream could not be counted')
    this.#stopCounting()
  }

  /** Stops reading a stream that is only counted. Its bytes still pass, and it is settled as if it had not been read. */
  #stopCounting(): void {
    const filter = this.#filter
    this.#filter = undefined
    // A destroyed decoder takes no more bytes and would never emit 'drain'.
    this.#isDecoderDone = true
    this.#decoder?.destroy()
    this.#flow.resumeBackend()
    this.#settle(() => this.#settleUnread(filter))
  }

  #afterPass(filter: StreamFilter<PlanRule>): void {
    for (; this.#loggedWouldCuts < filter.wouldCut.length; this.#loggedWouldCuts++) {
      const excess = filter.wouldCut[this.#loggedWouldCuts]!
      this.#noteWouldCut(excess)
    }
    if (this.#growth !== undefined) for (const excess of this.#growth.newWouldCut()) this.#noteWouldCut(excess)
    const { cut } = filter
    if (cut !== undefined) {
      this.#settle(() => {
        this.#parts.metrics.countTruncation(cut.rule, cut.cause)
        this.#log('truncated', cut, 'stream truncated')
        this.#parts.settlement.settleStream('truncated', filter.charged, this.#estimateOf(filter))
      })
    } else if (!filter.hasEnded) return
    else if (!this.#awaitsCount(filter)) this.#settleDone(filter)
    else this.#countTimer ??= setTimeout(() => this.#guard(() => this.#settleDone(filter)), COUNT_WAIT_MS)
  }

  /** Some servers send the count that a client asked for behind the end of the stream. */
  #awaitsCount(filter: StreamFilter<PlanRule>): boolean {
    const { hidesUsage, request } = this.#parts
    return !filter.hasProviderCount && !filter.hasOverrun && (hidesUsage || (request.streamOptionsAt ?? 0) > 0)
  }

  /** Settles a stream that ends early. If only the provider's count was missing, which some send behind the end, it has ended as usual. */
  #settleBroken(end: 'truncated' | 'client_gone' | 'backend_failed', filter: StreamFilter<PlanRule> | undefined): void {
    if (filter?.hasEnded && filter.cut === undefined) return this.#settleDone(filter)
    this.#settle(() => {
      const { settlement, request, isLookup } = this.#parts
      if (isLookup) settlement.giveBack(end)
      else if (filter === undefined) settlement.keepReservation(end, this.#bySize())
      else if (filter.isOpaque && asksForTokens(request)) settlement.keepReservation(end, this.#bySize(filter))
      else settlement.settleStream(end, filter.charged, this.#estimateOf(filter))
    })
  }

  /**
   * Estimates are too low in two cases: background work goes on after the stream ends, and a stream whose request could not be changed to ask for the
   * provider's count may contain text that was not counted.
   */
  #estimateOf({ hasProviderCount }: StreamFilter<PlanRule>): 'fair' | 'low' | undefined {
    const { request, isUnasked } = this.#parts
    if (hasProviderCount) return undefined
    return isUnasked || request.isBackground === true ? 'low' : 'fair'
  }

  #settleDone(filter: StreamFilter<PlanRule>): void {
    this.#settle(() => {
      const { settlement, metrics, request, isLookup } = this.#parts
      const { hasProviderCount, counts } = filter
      if (isLookup || filter.hasFailed || (this.#status >= 400 && !filter.hasUsage)) return settlement.giveBack('done')
      if (!filter.isUnderstood && asksForTokens(request)) return settlement.keepNotUnderstood(this.#bySize(filter), !filter.isOpaque)
      settlement.settleStream('done', filter.charged, this.#estimateOf(filter))
      if (!hasProviderCount) return
      metrics.compareEstimate('prompt', request.promptTokens, counts.input)
      metrics.compareEstimate('completion', filter.estimatedCompletionTokens, counts.output)
    })
  }

  #settleUnread(filter?: StreamFilter<PlanRule>): void {
    if (this.#status >= 400) this.#parts.settlement.giveBack('done')
    else this.#parts.settlement.keepReservation('done', this.#bySize(filter))
  }

  /** What has passed by its size, of which nothing more is known. */
  #bySize(filter?: StreamFilter<PlanRule>): PassedSize | undefined {
    if (filter !== undefined) return { tokens: filter.charged, isStreamed: true }
    if (this.#codedBytes === undefined) return undefined
    return { tokens: estimatedCounts(this.#parts.request.promptTokens, estimatedTokens(this.#codedBytes)), isStreamed: true }
  }

  /** A stream can end in several ways, and only the first end counts. */
  #settle(settle: () => void): void {
    if (this.#parts.settlement.isSettled) return
    if (this.#isOpen) this.#parts.metrics.openStreams.count--
    this.#isOpen = false
    clearTimeout(this.#countTimer)
    settle()
  }

  #noteWouldCut(excess: StreamExcess<PlanRule>): void {
    this.#parts.metrics.countWouldTruncate(excess.rule, excess.cause)
    this.#log('would_truncate', excess, 'stream would be truncated')
  }

  #log(event: 'truncated' | 'would_truncate', { rule, completionTokens, cause }: StreamExcess<PlanRule>, message: string): void {
    const { policy, name, llm } = rule
    const bound = { completion_tokens: completionTokens, max_completion_tokens: llm!.maxCompletionTokens }
    this.#parts.logger.info({ event, policy: policy.id, rule: name, cause, ...bound }, message)
  }
}

/** The servers that send their count behind the end of a stream send it at once. */
const COUNT_WAIT_MS = 1000

/** Chooses how a response that costs tokens is read: event by event, or as a whole. */
export function newLlmResponse(head: ResponseHead, hasBody: boolean, parts: LlmResponseParts, flow: ResponseFlow): LlmResponse {
  parts.settlement.noteHead(head.status)
  return hasBody && head.isEventStream ? new StreamedResponse(head, parts, flow) : new WholeResponse(head, parts, flow)
}
