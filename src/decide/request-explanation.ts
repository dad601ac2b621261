import type { ExplainedPolicy, StepwiseExplanation } from '../engine/questions/explanation.ts'
import type { Reason } from '../engine/reasons.ts'
import type { HeaderList } from '../http1/header-fields.ts'
import { answerHeaders, answerOf, type DecisionAnswer, refusedAnswer } from './decision-answer.ts'

/** A request that an operator asks about. */
export interface AskedRequest {
  readonly method: string
  readonly uri: string
  /** Undefined: the request names none. */
  readonly host: string | undefined
  /** Names and values in turn. A name may come more than once. */
  readonly fields: readonly string[]
  readonly body: string | undefined
}

/** What a request would get now, and why. Nothing was taken, counted or logged for it. */
export interface RequestExplanation {
  readonly answer: DecisionAnswer
  /** As the client, or the gateway that asks, would get them; without those that every response has. */
  readonly headers: HeaderList
  /** Empty where the request was refused before a policy was looked at. */
  readonly policies: Iterable<ExplainedPolicy>
}

/** How a mode would respond to a request. */
export type ExplainRequest = (asked: AskedRequest) => Promise<RequestExplanation>

/** A request that no policy sees. */
export function explainRefusal(reason: Reason): RequestExplanation {
  return explanationOf(refusedAnswer(reason), [])
}

/** A request that the engine decides. */
export function explainDecision({ decision, policies }: StepwiseExplanation): RequestExplanation {
  return explanationOf(answerOf(decision), policies)
}

function explanationOf(answer: DecisionAnswer, policies: Iterable<ExplainedPolicy>): RequestExplanation {
  return { answer, headers: answerHeaders(answer), policies }
}
