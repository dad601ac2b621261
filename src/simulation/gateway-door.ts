import { answerHeaders, answerOf, type DecisionAnswer, refusedAnswer } from '../decide/decision-answer.ts'
import { asksToSettle, hintedBody } from '../decide/gateway-fields.ts'
import type { RequestExplanation } from '../decide/request-explanation.ts'
import { askedQuestion, questionExplainer } from '../doors/http1/question-explainer.ts'
import type { Decision } from '../engine/decision.ts'
import type { Engine } from '../engine/engine.ts'
import type { BodyFacts } from '../engine/question.ts'
import type { HeaderList } from '../http/header-list.ts'
import type { RequestView } from '../request/view.ts'
import type { SimulatedDoor, SimulatedRequest } from './simulated-door.ts'

/** `decision_service`: a gateway asks `/v1/decision` about each request. Bodies are not read; what is taken stands unless it is settled. */
export class GatewayDoor implements SimulatedDoor {
  readonly endsRequests = false
  readonly #engine: Engine
  readonly #hasHints: boolean
  readonly #explain: (request: SimulatedRequest) => Promise<RequestExplanation>

  /** `hasHints`: what gateways say about bodies counts. */
  constructor(engine: Engine, hasHints: boolean) {
    this.#engine = engine
    this.#hasHints = hasHints
    this.#explain = questionExplainer(engine, hasHints)
  }

  decide(request: SimulatedRequest): DecisionAnswer {
    const view = askedQuestion(forwarded(request))
    if (typeof view === 'string') return refusedAnswer(view)
    const isSettledLater = request.usage !== undefined || asksToSettle(view)
    return answerOf(this.#engine.decide(view, { isSettledLater, body: this.#bodyOf(view) }) as Decision)
  }

  decideView(view: RequestView): Decision {
    const body = this.#bodyOf(view)
    return (body === undefined ? this.#engine.decide(view) : this.#engine.decide(view, { body })) as Decision
  }

  headersOf(answer: DecisionAnswer): HeaderList {
    return answerHeaders(answer)
  }

  explain(request: SimulatedRequest): Promise<RequestExplanation> {
    return this.#explain(forwarded(request))
  }

  #bodyOf(view: RequestView): BodyFacts {
    return hintedBody(view, this.#engine.plan!, this.#hasHints)
  }
}

/** A gateway adds its client as the last hop. */
function forwarded(request: SimulatedRequest): SimulatedRequest {
  const { client, fields } = request
  return client === undefined ? request : { ...request, fields: [...fields, 'X-Forwarded-For', client] }
}
