import type { Logger } from 'pino'
import { headerValue } from '../../http1/header-fields.ts'
import { asksForTokens, type LlmRequest } from '../../llm/llm-request.ts'
import { LlmResponseReader } from '../../llm/llm-response.ts'
import { countTokens, estimatedTokens, hasUsage, inputTokens, type Tally } from '../../llm/usage.ts'
import type { LlmMetrics } from '../../telemetry/metrics/llm-metrics.ts'
import type { ResponseHead } from '../backend/response-head.ts'
import { BodyScan, type Coding, codingOf, type ScanOutcome } from '../body/body-scan.ts'
import type { WorkSlices } from '../body/work-slices.ts'
import type { Settlement } from './settlement.ts'

/** A response that costs tokens: it is read on its way, and settled at its first end, whichever that is. */
export interface LlmResponse {
  /** Its bytes may be changed: its length is not the backend's any more, and it goes on decoded. */
  readonly isFiltered: boolean
  readonly isDecoded: boolean
  /** All that was delivered of a filtered stream ends with a whole event. */
  readonly isBetweenEvents: boolean
  read(chunk: Buffer): void
  /** The backend has sent all of it. Calls back when it is settled and delivered. */
  end(onEnded: () => void): void
  clientGone(): void
  backendFailed(): void
  pause(): void
  resume(): void
}

/** What a response asks of the exchange that it is part of. Exchanges know their responses; this type keeps responses from knowing exchanges. */
export interface ResponseFlow {
  /** A text has one letter a byte. */
  deliver(bytes: Buffer | string): void
  /** Nothing more comes for now: what was delivered is sent. */
  flush(): void
  /** The stream was cut: what was delivered is all there will be. */
  cut(): void
  /** The body is not what Content-Encoding says. */
  failDamaged(error: Error): void
  /** Our own code failed while the response was read. */
  abandon(error: unknown): void
  pauseBackend(): void
  resumeBackend(): void
}

export interface LlmResponseParts {
  readonly settlement: Settlement
  readonly request: LlmRequest
  /** The client asked for a stream, by its body or by Accept. */
  readonly isActivated: boolean
  /** The proxy has asked for the count of a stream, and the client has not: it does not see it. */
  readonly hidesUsage: boolean
  /** A rule wants the count of a stream, and the request could not be made to ask for it. */
  readonly isUnasked: boolean
  /** Whatever usage it reports was charged to the request that caused it: this one looks that up again. */
  readonly isLookup: boolean
  readonly maxBodyBytes: number
  readonly slices: WorkSlices
  readonly metrics: LlmMetrics
  readonly logger: Logger
}

/** A response that is counted when all of it has come. It passes unchanged, is read on its way, and nothing of it is kept. */
export class WholeResponse implements LlmResponse {
  readonly isFiltered = false
  readonly isDecoded = false
  readonly isBetweenEvents = false
  readonly #parts: LlmResponseParts
  readonly #flow: ResponseFlow
  readonly #status: number
  readonly #coding: Coding | undefined
  readonly #reader = new LlmResponseReader()
  #scan: BodyScan | undefined
  #size = 0

  constructor(head: ResponseHead, parts: LlmResponseParts, flow: ResponseFlow) {
    this.#parts = parts
    this.#flow = flow
    this.#status = head.status
    this.#coding = codingOf(headerValue(head.fields, 'content-encoding'))
  }

  read(chunk: Buffer): void {
    this.#flow.deliver(chunk)
    this.#size += chunk.length
    if (this.#coding === undefined) return
    if (this.#size > this.#parts.maxBodyBytes) return this.#scan?.drop()
    this.#scan ??= this.#newScan(this.#coding)
    if (!this.#scan.write(chunk)) this.#flow.pauseBackend()
  }

  /** The last bytes wait until it is settled: whoever has the whole response finds the budget correct. */
  end(onEnded: () => void): void {
    const onRead = (outcome: ScanOutcome): void => {
      if (outcome === 'read') this.#settle(this.#reader.end())
      else this.#settleUnread()
      onEnded()
    }
    if (this.#size === 0) onRead('read')
    else if (this.#coding === undefined || this.#size > this.#parts.maxBodyBytes) onRead('too_large')
    else this.#scan!.end(onRead)
  }

  /** Who leaves one byte before the end has seen the text, and pays for it. */
  clientGone(): void {
    const { settlement, request, isLookup, maxBodyBytes } = this.#parts
    this.#scan?.readWaiting()
    this.#scan?.drop()
    const isReadable = this.#size === 0 || (this.#coding === 'identity' && this.#size <= maxBodyBytes && !this.#reader.isBeyondLimits)
    if (isLookup) return settlement.giveBack('client_gone')
    const tally = isReadable ? this.#reader.breakOff() : undefined
    // The backend has begun, so there is something to pay for.
    if (tally === undefined || (tally.characters === 0 && !hasUsage(tally) && asksForTokens(request)))
      return settlement.keepReservation('client_gone')
    settlement.settle('client_gone', countTokens(tally, request.promptTokens), 'fair')
  }

  backendFailed(): void {
    this.#scan?.drop()
    this.#parts.settlement.giveBack('backend_failed')
  }

  pause(): void {}

  resume(): void {}

  #newScan(coding: Coding): BodyScan {
    const { maxBodyBytes: maxBytes, slices } = this.#parts
    return new BodyScan(this.#reader, {
      coding,
      maxBytes,
      slices,
      isBorrowed: true,
      onDrain: () => this.#flow.resumeBackend(),
      onBroken: (error) => this.#flow.abandon(error),
    })
  }

  #settle(tally: Tally): void {
    const { settlement, request, metrics, isLookup } = this.#parts
    if (isLookup || (this.#status >= 400 && !hasUsage(tally))) return settlement.giveBack('done')
    if (this.#reader.isUnderWay) return settlement.keepReservation('done')
    const isUnderstood = hasUsage(tally) || tally.characters > 0
    if (!isUnderstood && this.#status < 300 && asksForTokens(request)) return settlement.keepNotUnderstood()
    const counts = countTokens(tally, request.promptTokens)
    if (tally.promptTokens !== undefined) metrics.compareEstimate('prompt', request.promptTokens, inputTokens(counts))
    if (tally.completionTokens !== undefined && tally.characters > 0) {
      metrics.compareEstimate('completion', estimatedTokens(tally.characters), tally.completionTokens)
    }
    settlement.settle('done', counts)
  }

  /** Nobody can tell what it cost: what was reserved counts as spent, unless the backend says that it failed. */
  #settleUnread(): void {
    if (this.#status >= 400) this.#parts.settlement.giveBack('done')
    else this.#parts.settlement.keepReservation('done')
  }
}
