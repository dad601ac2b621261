import type { Usage } from '../../costs/cost.ts'
import { decideInSteps, UnrecordedSteps } from '../../decide/decide-in-steps.ts'
import { answerHeaders, answerOf, type DecisionAnswer, refusedAnswer } from '../../decide/decision-answer.ts'
import { asksToSettle, hintedBody } from '../../decide/question.ts'
import type { AskedRequest, RequestExplanation } from '../../decide/request-explanation.ts'
import { askedQuestion, questionExplainer } from '../../doors/http1/http-question.ts'
import type { BodyFacts } from '../../engine/decide-options.ts'
import type { Decision } from '../../engine/decision.ts'
import type { Engine } from '../../engine/engine.ts'
import { NO_LINES } from '../../engine/waiting-lines.ts'
import type { HeaderList } from '../../http1/header-fields.ts'
import { peerAt } from '../../proxy/downstream.ts'
import { type AskedOptions, FORWARDER, readAsked } from '../../proxy/incoming-request.ts'
import { requestExplainer, responseFieldsOf } from '../../proxy/request-explainer.ts'
import type { CallerVerdict } from '../../request/caller.ts'
import type { TrustedProxies } from '../../request/client-address.ts'
import type { RequestView } from '../../request/view.ts'
import { WorkSlices } from '../../time/slices.ts'

export interface SimulatedRequest extends AskedRequest {
  /** Address of the connection's other end: the last hop, after those in X-Forwarded-For. */
  readonly client?: string | undefined
  /** Whether the request may have had a body that is not in the log. */
  readonly isBodyUnknown?: boolean
  /** What the request used in the end, for settling it; undefined if it is unknown. */
  readonly usage?: Usage | undefined
}

/** Reads requests and responds to them as a mode does, without a socket. */
export interface SimulatedDoor {
  /** Returns a promise only if a body must be read. */
  decide(request: SimulatedRequest): DecisionAnswer | Promise<DecisionAnswer>
  /** Decides a request whose head has been read and whose body is not needed. `caller` sends it, if that is known. */
  decideView(view: RequestView, caller: CallerVerdict | undefined): Decision
  /** Returns the header fields as the client, or the gateway that asks, gets them. */
  headersOf(answer: DecisionAnswer): HeaderList
  /** Explains what `decide` would return. Takes nothing. */
  explain(request: SimulatedRequest): Promise<RequestExplanation>
  /** Whether requests in flight end by themselves, without being settled. */
  readonly endsRequests: boolean
}

/** `decision_service`: a gateway asks `/v1/decision` about each request. Bodies are not read, and what is taken stays taken unless it is settled. */
export class GatewayDoor implements SimulatedDoor {
  readonly endsRequests = false
  readonly #engine: Engine
  readonly #hasHints: boolean
  readonly #explain: (request: SimulatedRequest) => Promise<RequestExplanation>

  /** `hasHints` is whether the gateways' hints about bodies are used. */
  constructor(engine: Engine, hasHints: boolean) {
    this.#engine = engine
    this.#hasHints = hasHints
    this.#explain = questionExplainer(engine, hasHints)
  }

  decide(request: SimulatedRequest): DecisionAnswer {
    const view = askedQuestion(forwarded(request))
    if (typeof view === 'string') return refusedAnswer(view)
    const isSettledLater = request.usage !== undefined || asksToSettle(view)
    const { caller } = request
    return answerOf(this.#engine.decide(view, { isSettledLater, caller, body: this.#bodyOf(view) }) as Decision)
  }

  decideView(view: RequestView, caller: CallerVerdict | undefined): Decision {
    const body = this.#bodyOf(view)
    const isPlain = body === undefined && caller === undefined
    return (isPlain ? this.#engine.decide(view) : this.#engine.decide(view, { body, caller })) as Decision
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

/** A gateway appends its client to X-Forwarded-For as the last hop. */
function forwarded(request: SimulatedRequest): SimulatedRequest {
  const { client, fields } = request
  return client === undefined ? request : { ...request, fields: [...fields, 'X-Forwarded-For', client] }
}

/** `reverse_proxy`: requests come from clients, and bodies are read if a rule needs them. There is no backend; allowed requests get 200. */
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
    const steps = new UnrecordedSteps(this.#engine.open(incoming.view, { caller: asked.caller, lines: NO_LINES })!, true)
    return (await decideInSteps(steps, incoming.body, this.#maxBodyBytes))!
  }

  decideView(view: RequestView, caller: CallerVerdict | undefined): Decision {
    return this.#engine.decide(view, { caller, lines: NO_LINES }) as Decision
  }

  headersOf(answer: DecisionAnswer): HeaderList {
    return responseFieldsOf(answer)
  }

  explain(request: SimulatedRequest): Promise<RequestExplanation> {
    return requestExplainer(this.#engine, this.#optionsFor(request))(request)
  }

  /** Requests without a route are decided as if there were an `EDGE_BACKEND_URL`. */
  #optionsFor({ client, isBodyUnknown = false }: SimulatedRequest): AskedOptions {
    const peer = client === undefined ? FORWARDER : peerAt(client, this.#trustedProxies)
    return { peer, basePath: '', hasLastResort: true, maxBodyBytes: this.#maxBodyBytes, slices: this.#slices, isBodyUnknown }
  }
}
