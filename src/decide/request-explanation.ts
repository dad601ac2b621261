import type { ExplainedPolicy, StepwiseExplanation } from '../engine/explain/explanation.ts'
import type { Reason } from '../engine/reasons.ts'
import type { HeaderList } from '../http1/header-fields.ts'
import type { CallerVerdict } from '../request/caller.ts'
import { answerHeaders, answerOf, type DecisionAnswer, refusedAnswer } from './decision-answer.ts'

/** A request that an operator asks about. */
export interface AskedRequest {
  readonly method: string
  readonly uri: string
  /** Undefined if the request names no host. */
  readonly host: string | undefined
  /** Alternating names and values. A name may occur more than once. */
  readonly fields: readonly string[]
  readonly body: string | undefined
  /** Who sends the request, if no credential is to be read. */
  readonly caller?: CallerVerdict | undefined
}

/** The answer that a request would get now, and why. Nothing was taken, counted or logged for it. */
export interface RequestExplanation {
  readonly answer: DecisionAnswer
  /** Header fields that the client, or the gateway that asks, would get, without those that every response has. */
  readonly headers: HeaderList
  /** Who sends the request, or why nobody knows; undefined if the bundle has no `callers`, or the request is refused before. */
  readonly caller: CallerVerdict | undefined
  /** Where the request would be sent, whatever becomes of it; undefined if the bundle has no routes, or the request can have none. */
  readonly route?: ExplainedRoute | undefined
  /** Empty if the request was refused before any policy was looked at. */
  readonly policies: Iterable<ExplainedPolicy>
}

/** The route of a request, and the backends that it may be sent to. */
export interface ExplainedRoute {
  /** Its index in the bundle; undefined if no route covers the request. */
  readonly number: number | undefined
  /** Whether the request stays with one backend (`stick_to`). */
  readonly isSticky: boolean
  /** Those that share the requests, then the fallback in its order. */
  readonly candidates: readonly ExplainedChoice[]
}

export interface ExplainedChoice {
  readonly name: string
  readonly isFallback: boolean
  readonly weight: number
  /** Replaces the request's model. */
  readonly model: string | undefined
  readonly state: 'healthy' | 'cooling' | 'probing'
  /** Why it cools, or has cooled. */
  readonly reason: string | undefined
  /** Until when it cools, in Unix time. */
  readonly untilMs: number | undefined
  /** The probability that the request is sent there first. */
  readonly share: number
}

/** Explains how the service, in its current mode, would respond to a request. */
export type ExplainRequest = (asked: AskedRequest) => Promise<RequestExplanation>

/** Explains a request that is refused before any policy sees it. */
export function explainRefusal(reason: Reason): RequestExplanation {
  return explanationOf(refusedAnswer(reason), undefined, [])
}

/** Explains a request that the engine decides. */
export function explainDecision({ decision, caller, policies }: StepwiseExplanation): RequestExplanation {
  return explanationOf(answerOf(decision), caller, policies)
}

function explanationOf(answer: DecisionAnswer, caller: CallerVerdict | undefined, policies: Iterable<ExplainedPolicy>): RequestExplanation {
  return { answer, headers: answerHeaders(answer), caller, policies }
}
