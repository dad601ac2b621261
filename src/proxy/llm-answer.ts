import type { Logger } from 'pino'
import { headerValue } from '../http/raw-headers.ts'
import type { LlmRequest } from '../llm/llm-request.ts'
import type { LlmMetrics } from '../telemetry/metrics/llm-metrics.ts'
import type { ResponseHead } from './backend/response-head.ts'
import type { Settlement } from './settlement.ts'
import { StreamedAnswer } from './streamed-answer.ts'
import { WholeAnswer } from './whole-answer.ts'
import type { WorkSlices } from './work-slices.ts'

/** An answer that costs tokens: it is read on its way, and settled at its first end, whichever that is. */
export interface LlmAnswer {
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

/** What an answer can do to the exchange that it is part of. */
export interface AnswerFlow {
  deliver(bytes: Buffer): void
  /** Nothing more is to be delivered for now. */
  quiet(): void
  /** The stream was cut: what was delivered is all there will be. */
  cut(): void
  /** The answer is not what it says it is. */
  fail(error: Error): void
  /** Our own code failed while it was read. */
  giveUp(error: unknown): void
  pauseBackend(): void
  resumeBackend(): void
}

export interface LlmAnswerParts {
  readonly settlement: Settlement
  readonly request: LlmRequest
  /** The client asked for a stream, by its body or by Accept. */
  readonly isActivated: boolean
  readonly maxBodyBytes: number
  readonly slices: WorkSlices
  readonly metrics: LlmMetrics
  readonly logger: Logger
}

export function newLlmAnswer(head: ResponseHead, hasBody: boolean, parts: LlmAnswerParts, flow: AnswerFlow): LlmAnswer {
  const isStream = hasBody && /^text\/event-stream\s*(?:;|$)/i.test(headerValue(head.fields, 'content-type') ?? '')
  return isStream ? new StreamedAnswer(head, parts, flow) : new WholeAnswer(head, parts, flow)
}
