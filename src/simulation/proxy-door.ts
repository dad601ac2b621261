import { answerHeaders, answerOf, type DecisionAnswer, refusedAnswer } from '../decide/decision-answer.ts'
import type { RequestExplanation } from '../decide/request-explanation.ts'
import type { Decision } from '../engine/decision.ts'
import type { Engine } from '../engine/engine.ts'
import type { HeaderList } from '../http/header-list.ts'
import { readCost } from '../proxy/body-cost.ts'
import { errorFields } from '../proxy/error-response.ts'
import { type Peer, peerAt } from '../proxy/peer.ts'
import { ProxiedRequestView } from '../proxy/proxied-request-view.ts'
import { askedProxiedRequest, FORWARDER, requestExplainer } from '../proxy/request-explainer.ts'
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
    const { request, bytes } = askedProxiedRequest(asked)
    if (typeof request === 'string') return refusedAnswer('bad_request')
    const pending = this.#engine.open(new ProxiedRequestView(request, this.#peerOf(asked)))!
    const need = pending.needsBody()
    if (need === 'no') return answerOf(await pending.decide())
    const isEnforced = need === 'must'
    if (isEnforced && (request.contentLength ?? 0) > this.#maxBodyBytes) return refusedAnswer('body_too_large')
    const rejection = await pending.precheck()
    if (rejection !== undefined) return answerOf(rejection)
    const cost = await readCost(bytes, request, this.#maxBodyBytes, this.#slices)
    if (isEnforced && typeof cost === 'string') return refusedAnswer(cost)
    return answerOf(await pending.decide({ body: typeof cost !== 'string' || cost === 'repeated_descriptor' ? cost : undefined }))
  }

  decideView(view: RequestView): Decision {
    return this.#engine.decide(view) as Decision
  }

  headersOf(answer: DecisionAnswer): HeaderList {
    const headers = answerHeaders(answer)
    if (answer.decision?.action === 'allow') return headers
    return errorFields(answer.decision?.reason ?? answer.refusal!, headers)
  }

  explain(request: SimulatedRequest): Promise<RequestExplanation> {
    return requestExplainer(this.#engine, this.#maxBodyBytes, this.#peerOf(request))(request)
  }

  #peerOf({ client }: SimulatedRequest): Peer {
    return client === undefined ? FORWARDER : peerAt(client, this.#trustedProxies)
  }
}
