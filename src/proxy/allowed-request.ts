import type { LlmRequest } from '../llm/llm-request.ts'
import type { Plan } from '../policy/plan.ts'
import type { CallerVerdict } from '../request/caller.ts'
import type { RequestView } from '../request/view.ts'
import type { BackendRequest } from './backend/backend-call.ts'
import { lengthOf } from './backend/backend-connection.ts'
import type { RoutedAttempts } from './backends/routed-attempts.ts'
import { type Insertion, routedParts } from './backends/routed-request.ts'
import type { ReadBody } from './body/request-body.ts'
import type { Downstream } from './downstream.ts'
import type { LlmResponseParts } from './llm/llm-response.ts'
import type { HeldRequest } from './llm/open-holds.ts'
import type { Settlement } from './llm/settlement.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import { requestHead } from './request-head.ts'

/** A request that may be forwarded to the backend. */
export interface AllowedRequest {
  readonly request: ProxiedRequest
  readonly downstream: Downstream
  /** The decision's header fields as lines. */
  readonly fields: string
  /** Parts that read and settle the response; undefined if nothing has to be settled. */
  readonly llm: LlmResponseParts | undefined
  /** The request as the engine sees it, the facts of its body if that was read, and the plan that allowed it. */
  readonly view: RequestView
  readonly body: LlmRequest | undefined
  readonly plan: Plan | undefined
  /** Who sent it; undefined if the bundle has no `callers`. */
  readonly caller: CallerVerdict | undefined
  /** Holds to release at the end; undefined if no rule counts requests in flight. */
  readonly held: HeldRequest | undefined
  readonly host: string
  readonly target: string
  /** The calls to the backends of its route; undefined if `EDGE_BACKEND_URL` gets it. */
  readonly attempts: RoutedAttempts | undefined
  /** How its body differs from the one that was read; undefined if it does not. */
  readonly inserted: Insertion | undefined
}

/** Stands for the caller of a request for which nobody looked for one. */
const NOBODY = { keyFields: undefined }

/** Returns the request as the backend gets it. If only part of the body was read, the body is streamed. */
export function backendRequest(allowed: AllowedRequest, body: ReadBody | undefined, url: URL): BackendRequest {
  const { request, downstream, llm, caller, attempts, inserted } = allowed
  const routed = attempts && routedParts(request, attempts.choice, body, inserted, attempts.secrets)
  const { host, target } = routed ?? allowed
  const { method, isUpgrade, isChunked, hasBody } = request
  const asksForIdentity = llm !== undefined && mayChangeResponse(llm.settlement)
  const whole = body?.isPartial === false ? (routed?.pieces ?? [body.bytes]) : undefined
  const trace = downstream.trace?.startCall(allowed.body, url, attempts)
  const keyFields = attempts?.choice.backend.forwardsCredentials === false ? credentialFields(allowed) : (caller ?? NOBODY).keyFields
  const ownFields = routed?.fields
  const options = { host, target, bodyLength: whole && lengthOf(whole), asksForIdentity, trace, keyFields, ownFields }
  const head = requestHead(request, downstream.peer, options)
  const streamed = isChunked ? 'chunked' : hasBody ? 'by_length' : undefined
  return { method, head, body: whole ?? streamed, isUpgrade, isRouted: routed !== undefined }
}

/** The fields by which clients say who they are, wherever the bundle reads that. */
function credentialFields({ plan }: AllowedRequest): readonly string[] {
  return plan?.callers?.credentialFields ?? ONLY_AUTHORIZATION
}

const ONLY_AUTHORIZATION = ['authorization']

/** Returns our header fields for the response, as lines: those of the decision and, with a debug session, which backends were tried. */
export function ownFields({ fields, attempts }: AllowedRequest): string {
  return attempts === undefined ? fields : fields + attempts.debugLines
}

/** Shadow policies never change a response. */
function mayChangeResponse({ reservation, isShadowed }: Settlement): boolean {
  return !isShadowed && reservation.charges.some(({ rule }) => !rule.policy.isShadow)
}
