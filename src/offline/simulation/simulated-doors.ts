import type { Usage } from '../../costs/cost.ts'
import { decideInSteps, UnrecordedSteps } from '../../decide/decide-in-steps.ts'
import { answerHeaders, answerOf, type DecisionAnswer, refusedAnswer } from '../../decide/decision-answer.ts'
import { asksToSettle, hintedBody } from '../../decide/question.ts'
import type { AskedRequest, RequestExplanation } from '../../decide/request-explanation.ts'
import { askedQuestion, questionExplainer } from '../../doors/http1/http-question.ts'
import type { BodyFacts } from '../../engine/decide-options.ts'
import type { Decision } from '../../engine/decision.ts'
import type { Engine } from '../../engine/engine.ts'
import type { HeaderList } from '../../http1/header-fields.ts'
import { WorkSlices } from '../../proxy/body/work-slices.ts'
import { peerAt } from '../../proxy/downstream.ts'
import { type AskedOptions, FORWARDER, readAsked } from '../../proxy/incoming-request.ts'
import { requestExplainer, responseFieldsOf } from '../../proxy/request-explainer.ts'
import type { TrustedProxies } from '../../request/client-address.ts'
import type { RequestView } from '../../request/view.ts'

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

/** `reverse_proxy`: requests come from clients, and bodies are read where a rule needs them. There is no backend: what is allowed gets 200. */
export class ProxyDoor implements SimulatedDoor {
  readonly endsRequests = true
  readonly #engine: Engine
  readonly #maxBodyBytes: number
  readonly #trustedProxies: TrustedProxies
  readonly #slices = new WorkSlices()

  constructor(engine: Engine, maxBodyBytes: number, trustedProxies: TrustedProxies) {
    this.#engine = engine
    this.#maxBodyBytes = maxBodyBytes
    this.#trustedProxies = trustedProxies
  }

  async decide(asked: SimulatedRequest): Promise<DecisionAnswer> {
    const incoming = readAsked(asked, this.#optionsFor(asked))
    if (typeof incoming === 'string') return refusedAnswer('bad_request')
    const steps = new UnrecordedSteps(this.#engine.open(incoming.view)!)
    return (await decideInSteps(steps, incoming.body, this.#maxBodyBytes))!
  }

  decideView(view: RequestView): Decision {
    return this.#engine.decide(view) as Decision
  }

  headersOf(answer: DecisionAnswer): HeaderList {
    return responseFieldsOf(answer)
  }

  explain(request: SimulatedRequest): Promise<RequestExplanation> {
    return requestExplainer(this.#engine, this.#optionsFor(request))(request)
  }

  #optionsFor({ client }: SimulatedRequest): AskedOptions {
    const peer = client === undefined ? FORWARDER : peerAt(client, this.#trustedProxies)
    return { peer, basePath: '', maxBodyBytes: this.#maxBodyBytes, slices: this.#slices }
  }
}
