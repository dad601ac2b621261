import type { LlmRequest } from '../llm/llm-request.ts'
import type { Plan } from '../policy/plan.ts'
import type { RequestView } from '../request/view.ts'
import type { BackendRequest } from './backend/backend-call.ts'
import type { Downstream } from './downstream.ts'
import type { LlmResponseParts } from './llm-response.ts'
import type { HeldRequest } from './open-holds.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import type { ReadBody } from './request-body.ts'
import { requestHead } from './request-head.ts'
import type { Settlement } from './settlement.ts'

/** A request that may go on to the backend. */
export interface AllowedRequest {
  readonly request: ProxiedRequest
  readonly downstream: Downstream
  /** The lines of the decision's fields, for the response. */
  readonly fields: string
  /** What it takes to settle, where tokens were reserved. */
  readonly llm: LlmResponseParts | undefined
  /** The request as the engine sees it, what was read of its body, and the plan that let it pass. */
  readonly view: RequestView
  readonly body: LlmRequest | undefined
  readonly plan: Plan | undefined
  /** What to release at the end, where rules count requests in flight. */
  readonly held: HeldRequest | undefined
  readonly host: string
  readonly target: string
}

/** The request as the backend gets it. A body of which only a part was read is still to come. */
export function backendRequest(allowed: AllowedRequest, body: ReadBody | undefined): BackendRequest {
  const { request, downstream, llm, host, target } = allowed
  const { method, isUpgrade, isChunked, hasBody } = request
  const asksForIdentity = llm !== undefined && mayChangeResponse(llm.settlement)
  const whole = body?.isPartial === false ? body.bytes : undefined
  const trace = downstream.trace?.startCall(allowed.body)
  const head = requestHead(request, downstream.peer, { host, target, bodyLength: whole?.length, asksForIdentity, trace })
  const streamed = isChunked ? 'chunked' : hasBody ? 'by_length' : undefined
  return { method, head, body: whole ?? streamed, isUpgrade }
}

/** Shadow policies change none. */
function mayChangeResponse({ reservation, isShadowed }: Settlement): boolean {
  return !isShadowed && reservation.charges.some(({ rule }) => !rule.policy.isShadow)
}
