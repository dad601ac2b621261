import type { Logger } from 'pino'
import { headerValue } from '../../http1/header-fields.ts'
import { PredictionReader } from '../../llm/dialects/predictions.ts'
import { MAX_BYTES_BESIDE } from '../../llm/dialects/unread-events.ts'
import { asksForTokens, type LlmRequest } from '../../llm/llm-request.ts'
import { LlmResponseReader } from '../../llm/llm-response.ts'
import { countTokens, estimatedCounts, estimatedTokens, hasUsage, type Tally, type TallyReader } from '../../llm/usage.ts'
import type { LlmMetrics } from '../../telemetry/metrics/llm-metrics.ts'
import { TextSize } from '../../text/text-size.ts'
import type { WorkSlices } from '../../time/slices.ts'
import type { ResponseHead } from '../backend/response-head.ts'
import { BodyScan, type Coding, codingOf, type ScanOutcome } from '../body/body-scan.ts'
import type { Lookup } from './lookup.ts'
import type { PassedSize, Settlement } from './settlement.ts'

/** A response that costs tokens. It is read on its way to the client, and settled when it first ends, for whatever reason. */
export interface LlmResponse {
  /** Its bytes may be changed, so the backend's length no longer holds, and a compressed body is passed on decoded. */
  readonly isFiltered: boolean
  readonly isDecoded: boolean
  /** Whether the stream is filtered and the client has received only complete events so far. */
  readonly isBetweenEvents: boolean
  /** Whether it must not be given more for now. It resumes the backend itself. */
  readonly isWaiting: boolean
  read(chunk: Buffer): void
  /**
   * To be called when the backend has sent everything. Calls back when all of it is delivered; by then it is settled, unless a stream that passes
   * unchanged is still being decoded.
   */
  end(onEnded: () => void): void
  clientGone(): void
  backendFailed(): void
  pause(): void
  resume(): void
}

/** Operations that a response needs from its exchange. Exchanges import their responses; this type keeps responses from importing exchanges. */
export interface ResponseFlow {
  /** Passes bytes on to the client. A string is a latin1 string. */
  deliver(bytes: Buffer | string): void
  /** Sends what was delivered, because nothing more comes for now. */
  flush(): void
  /** Ends the response early: nothing follows what was delivered. */
  cut(): void
  /** Fails the response because its body does not decode as Content-Encoding says. */
  failDamaged(error: Error): void
  /** Ends the exchange because our own code threw an error while the response was being read. */
  abandon(error: unknown): void
  pauseBackend(): void
  /** Like `pauseBackend`, for as long as a store takes to answer: the backend is not to blame. */
  holdBackend(): void
  resumeBackend(): void
}

export interface LlmResponseParts extends Lookup {
  readonly settlement: Settlement
  readonly request: LlmRequest
  /** The client asked for a stream, in its body or with Accept. */
  readonly isActivated: boolean
  /** The proxy asked for the provider's count of a stream and the client did not, so the count is hidden from the client. */
  readonly hidesUsage: boolean
  /** A rule wants the provider's count of a stream, but the request could not be made to ask for it. */
  readonly isUnasked: boolean
  readonly slices: WorkSlices
  readonly metrics: LlmMetrics
  readonly logger: Logger
}

/** A response that is counted when it is complete. It passes unchanged and is read on its way; nothing of it is kept. */
export class WholeResponse implements LlmResponse {
  readonly isFiltered = false
  readonly isDecoded = false
  readonly isBetweenEvents = false
  readonly isWaiting = false
  readonly #parts: LlmResponseParts
  readonly #flow: ResponseFlow
  readonly #status: number
  readonly #coding: Coding | undefined
  readonly #reader: TallyReader
  readonly #isMedia: boolean
  readonly #text = new TextSize()
  #scan: BodyScan | undefined
  #size = 0

  constructor(head: ResponseHead, parts: LlmResponseParts, flow: ResponseFlow) {
    this.#parts = parts
    this.#flow = flow
    this.#reader = parts.request.isPrediction === true ? new PredictionReader() : new LlmResponseReader(parts.lookedUpIds)
    this.#status = head.status
    this.#coding = codingOf(headerValue(head.fields, 'content-encoding'))
    this.#isMedia = MEDIA.test(headerValue(head.fields, 'content-type') ?? '')
    if (head.status < 400) parts.settlement.reserveAll()
  }

  read(chunk: Buffer): void {
    this.#flow.deliver(chunk)
    this.#size += chunk.length
    if (this.#coding === undefined) return
    this.#scan ??= this.#newScan(this.#coding)
    if (!this.#scan.write(chunk)) this.#flow.pauseBackend()
  }

  /** Holds the last bytes back until the response is settled, so that a client that has the whole response finds the budget correct. */
  end(onEnded: () => void): void {
    const onRead = (outcome: ScanOutcome): void => {
      if (outcome === 'read') this.#settle(this.#reader.end())
      else this.#settleUnread()
      onEnded()
    }
    if (this.#size === 0) onRead('read')
    else if (this.#coding === undefined) onRead('damaged')
    else this.#scan!.end(onRead)
  }

  /** A client that leaves one byte before the end has seen the text, and pays for it. */
  clientGone(): void {
    const { settlement, request, isLookup } = this.#parts
    this.#breakOff((tally) => {
      if (isLookup) return settlement.giveBack('client_gone')
      // The backend has begun to respond, so there is something to pay for.
      if (tally === undefined) return settlement.keepReservation('client_gone', this.#byCodedSize())
      if (isEmpty(tally) && asksForTokens(request)) return settlement.keepReservation('client_gone', this.#bySize())
      settlement.settle('client_gone', countTokens(tally, request.promptTokens), 'fair')
    })
  }

  backendFailed(): void {
    const { settlement, request, isLookup } = this.#parts
    this.#breakOff((tally) => {
      const isError = this.#status >= 400 && (tally === undefined || !hasUsage(tally))
      if (isLookup || isError) return settlement.giveBack('backend_failed')
      if (tally === undefined) return settlement.keepReservation('backend_failed', this.#byCodedSize())
      if (isEmpty(tally)) return this.#settlePassed()
      const estimate = tally.completionTokens === undefined ? 'fair' : undefined
      settlement.settle('backend_failed', countTokens(tally, request.promptTokens), estimate)
    })
  }

  /**
   * Settles what was not understood and will not be complete: all that has passed is known, so that it is charged and not what was reserved. Known APIs have
   * ids and names before their text.
   */
  #settlePassed(): void {
    const { settlement, request } = this.#parts
    if (this.#text.bytes === 0 || !asksForTokens(request)) return settlement.settleUnfinished()
    const passed = this.#bySize(Math.max(0, this.#text.bytes - MAX_BYTES_BESIDE))
    if (passed !== undefined) settlement.settle('backend_failed', passed.tokens, 'fair')
    else if (request.isEmbedding === true) settlement.settle('backend_failed', estimatedCounts(request.promptTokens, 0), 'fair')
    else settlement.keepReservation('backend_failed')
  }

  /** Reports what the response had shown when it broke off; undefined if that cannot be read. What is being decoded is read first. */
  #breakOff(settle: (tally: Tally | undefined) => void): void {
    const onRead = (): void => {
      this.#scan?.drop()
      settle(this.#size === 0 || this.#coding !== undefined ? this.#reader.breakOff() : undefined)
    }
    if (this.#scan === undefined) onRead()
    else this.#scan.readRest(onRead)
  }

  pause(): void {}

  resume(): void {}

  #newScan(coding: Coding): BodyScan {
    const reader = {
      push: (bytes: Uint8Array, from: number, to: number): void => {
        this.#text.push(bytes, from, to)
        this.#reader.push(bytes, from, to)
      },
      isBeyondLimits: false,
    }
    return new BodyScan(reader, {
      coding,
      // A client can have a response of any length, and its usage may be at the end. Nothing of it is kept.
      maxBytes: Number.POSITIVE_INFINITY,
      slices: this.#parts.slices,
      isBorrowed: true,
      onDrain: () => this.#flow.resumeBackend(),
      onBroken: (error) => this.#flow.abandon(error),
    })
  }

  #settle(tally: Tally): void {
    const { settlement, request, metrics, isLookup } = this.#parts
    const isError = this.#status >= 400 || (this.#reader.hasError && tally.characters === 0 && this.#text.bytes <= MAX_ERROR_BYTES)
    if (isLookup || (isError && !hasUsage(tally))) return settlement.giveBack('done')
    // Also while it is under way: the request that began it has kept its reservation.
    if (this.#reader.isLookedUp) return settlement.giveBack('done')
    if (this.#reader.isUnderWay) return settlement.keepReservation('done')
    const isUnderstood = hasUsage(tally) || tally.characters > 0 || request.isEmbedding === true
    if (!isUnderstood && this.#status < 300 && asksForTokens(request)) return settlement.keepNotUnderstood(this.#bySize())
    const counts = countTokens(tally, request.promptTokens)
    if (tally.promptTokens !== undefined) metrics.compareEstimate('prompt', request.promptTokens, counts.input)
    if (tally.completionTokens !== undefined && tally.characters > 0) {
      metrics.compareEstimate('completion', estimatedTokens(tally.characters), tally.completionTokens)
    }
    if (tally.completionTokens === undefined && tally.characters > 0) settlement.settleUncounted(counts)
    else settlement.settle('done', counts)
  }

  /** The bytes do not decode. The cost is unknown, so the reservation counts as spent, unless the status says that the request failed. */
  #settleUnread(): void {
    if (this.#status >= 400) this.#parts.settlement.giveBack('done')
    else this.#parts.settlement.keepReservation('done', this.#byCodedSize())
  }

  /** What has passed by its size; undefined if it is no text, as the numbers of an embedding are none. */
  #bySize(bytes = this.#text.bytes): PassedSize | undefined {
    const { request } = this.#parts
    if (this.#isMedia || request.isEmbedding === true || this.#text.isBinary) return undefined
    return { tokens: estimatedCounts(request.promptTokens, estimatedTokens(bytes)), isStreamed: false }
  }

  /** The same if not all of it could be decoded. */
  #byCodedSize(): PassedSize | undefined {
    return this.#bySize(Math.max(this.#text.bytes, this.#size))
  }
}

/** A larger response has something beside its error. */
const MAX_ERROR_BYTES = 64 * 1024

/** Types whose bytes are no text of a model, or text in a frame that is many times as large. */
const MEDIA =
  /^(?:audio|image|video|font)\/|^text\/(?:html|css|javascript)\b|^application\/(?:octet-stream|pdf|zip|xhtml\+xml|vnd\.amazon\.eventstream)\b/i

function isEmpty(tally: Tally): boolean {
  return tally.characters === 0 && !hasUsage(tally)
}

/**
 * Settles a request whose client is gone before the response came. Providers send the head of a whole response when they have generated all of it, so this is an
 * estimate that rules need not trust.
 */
export function settleUnanswered({ settlement, request }: LlmResponseParts): void {
  settlement.settle('client_gone', estimatedCounts(request.promptTokens, 0), asksForTokens(request) ? 'fair' : undefined)
}
