import type { Usage } from '../costs/cost.ts'
import type { DecisionAnswer } from '../decide/decision-answer.ts'
import type { AskedRequest, RequestExplanation } from '../decide/request-explanation.ts'
import type { Decision } from '../engine/decision.ts'
import type { HeaderList } from '../http/header-list.ts'
import type { RequestView } from '../request/view.ts'

export interface SimulatedRequest extends AskedRequest {
  /** The address that its connection comes from: the last hop behind X-Forwarded-For. */
  readonly client?: string | undefined
  /** What it has used at its end, for what is settled. Undefined: nobody says. */
  readonly usage?: Usage | undefined
}

/** How a mode reads requests and responds to them, without a socket. */
export interface SimulatedDoor {
  /** Returns at once unless a body must be read. */
  decide(request: SimulatedRequest): DecisionAnswer | Promise<DecisionAnswer>
  /** Decides what needs no reading. */
  decideView(view: RequestView): Decision
  /** As the client, or the gateway that asks, gets them. */
  headersOf(answer: DecisionAnswer): HeaderList
  /** What `decide` would return. Takes nothing. */
  explain(request: SimulatedRequest): Promise<RequestExplanation>
  /** Whether what is in flight ends by itself, whoever settles. */
  readonly endsRequests: boolean
}
