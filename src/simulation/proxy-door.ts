import { decideInSteps, UnrecordedSteps } from '../decide/decide-in-steps.ts'
import { type DecisionAnswer, refusedAnswer } from '../decide/decision-answer.ts'
import type { RequestExplanation } from '../decide/request-explanation.ts'
import type { Decision } from '../engine/decision.ts'
import type { Engine } from '../engine/engine.ts'
import type { HeaderList } from '../http/header-list.ts'
import { type AskedOptions, FORWARDER, readAsked } from '../proxy/incoming-request.ts'
import { peerAt } from '../proxy/peer.ts'
import { requestExplainer, responseFieldsOf } from '../proxy/request-explainer.ts'
import { WorkSlices } from '../proxy/work-slices.ts'
import type { TrustedProxies } from '../request/client-address.ts'
import type { RequestView } from '../request/view.ts'
import type { SimulatedDoor, SimulatedRequest } from './simulated-door.ts'

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
