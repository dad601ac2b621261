import type { Logger } from 'pino'
import type { LlmRequest } from '../llm/llm-request.ts'
import type { LlmMetrics } from '../telemetry/metrics/llm-metrics.ts'
import type { Settlement } from './settlement.ts'
import type { WorkSlices } from './work-slices.ts'

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
