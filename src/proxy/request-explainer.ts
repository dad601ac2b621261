import {
  type AskedRequest,
  type ExplainRequest,
  explainDecision,
  explainRefusal,
  type RequestExplanation,
} from '../decide/request-explanation.ts'
import type { Engine } from '../engine/engine.ts'
import { headerValue } from '../http/raw-headers.ts'
import { KNOWN_METHODS } from '../http1/request-line.ts'
import { type BodyCost, readCost } from './body-cost.ts'
import type { ReceivedHead } from './downstream.ts'
import { errorFields } from './error-response.ts'
import type { Peer } from './peer.ts'
import { ProxiedRequest } from './proxied-request.ts'
import { ProxiedRequestView } from './proxied-request-view.ts'
import { WorkSlices } from './work-slices.ts'

/** Whoever forwards the request for its client. Without X-Forwarded-For nobody knows the client's address. */
export const FORWARDER: Peer = { address: '', isTrusted: true }

/** What the proxy would respond, up to the backend's own response. Bodies are read as the proxy reads them. */
export function requestExplainer(engine: Engine, maxBodyBytes: number, peer = FORWARDER): ExplainRequest {
  const slices = new WorkSlices()
  const readBody = (bytes: Buffer, request: ProxiedRequest): Promise<BodyCost> => readCost(bytes, request, maxBodyBytes, slices)
  return async (asked) => {
    const { request, bytes } = askedProxiedRequest(asked)
    if (typeof request === 'string') return withErrorFields(explainRefusal('bad_request'))
    const view = new ProxiedRequestView(request, peer)
    const pending = engine.open(view)
    if (pending === undefined) return withErrorFields(explainRefusal('no_bundle_loaded'))
    const need = pending.needsBody()
    if (need === 'no') return withErrorFields(explainDecision(await pending.explainStepwise()))
    const isTooLarge = need === 'must' && (request.contentLength ?? 0) > maxBodyBytes
    // As for a request: what the head alone decides is decided before the body is read.
    const rejection = isTooLarge ? undefined : await pending.precheck(true)
    const cost = isTooLarge ? 'body_too_large' : await readBody(bytes, request)
    const facts = typeof cost !== 'string' || cost === 'repeated_descriptor' ? cost : undefined
    const explanation = await (rejection === undefined ? pending : engine.open(view)!).explainStepwise({ body: facts })
    if (rejection !== undefined) return withErrorFields(explainDecision({ ...explanation, decision: rejection }))
    if (need === 'may' || typeof cost !== 'string') return withErrorFields(explainDecision(explanation))
    return withErrorFields({ ...explainRefusal(cost), policies: explanation.policies })
  }
}

/** The request as the proxy reads it, or what is wrong with it; and its body. */
export function askedProxiedRequest(asked: AskedRequest): { readonly request: ProxiedRequest | string; readonly bytes: Buffer } {
  const bytes = Buffer.from(asked.body ?? '')
  const isKnown = KNOWN_METHODS.has(asked.method)
  return { request: isKnown ? ProxiedRequest.read(headOf(asked, bytes.length), false) : 'the method is not known', bytes }
}

/** With the fields of the responses that the proxy makes itself. */
function withErrorFields(explanation: RequestExplanation): RequestExplanation {
  const { answer, headers } = explanation
  if (answer.decision?.action === 'allow') return explanation
  return { ...explanation, headers: errorFields(answer.decision?.reason ?? answer.refusal!, headers) }
}

/** A client that names no host speaks HTTP/1.0. */
function headOf({ method, uri, host, fields: given, body }: AskedRequest, length: number): ReceivedHead {
  const fields = [...(host === undefined ? [] : ['Host', host]), ...given]
  const hasLength = ['content-length', 'transfer-encoding'].some((name) => headerValue(fields, name) !== undefined)
  if (body !== undefined && !hasLength) fields.push('Content-Length', String(length))
  return { method, target: uri, version: headerValue(fields, 'host') === undefined ? '1.0' : '1.1', fields }
}
