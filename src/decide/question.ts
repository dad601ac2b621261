import type { BodyFacts } from '../engine/decide-options.ts'
import type { SentRequest } from '../engine/evaluation.ts'
import type { Reason } from '../engine/reasons.ts'
import { MAX_TOKENS } from '../llm/usage.ts'
import type { Plan } from '../policy/plan.ts'
import type { CallerVerdict } from '../request/caller.ts'
import { type FieldValue, REPEATED, type RequestView } from '../request/view.ts'

/** A question as a door has read it: may this request proceed? */
export interface Question {
  readonly door: Door
  /** Returns the request in question, or why it cannot be determined. A repeated field is never guessed. */
  original(): RequestView | Reason
  /** All cookies as one string, which may contain a debug session. */
  cookie(): string | undefined
  /** The `traceparent` of the call or, failing that, of the request in question. */
  traceparent(): FieldValue
}

/** The protocol that asks, which is the label `door` of `edge_questions_total`. */
export type Door = 'decision' | 'forward_auth' | 'auth_request' | 'ext_authz' | 'ext_authz_grpc' | 'rate_limit' | 'proxy'

/**
 * Called for each request that was allowed or rejected, with the known facts of its body and its caller, before the view changes; of a request that goes to a
 * backend of a route when it is known which one answers, with `sent` and when it was decided. Must not throw.
 */
export type NoteDecided = (view: RequestView, body: BodyFacts, caller?: CallerVerdict, sent?: SentRequest, decidedAtMs?: number) => void

/** The longest model name accepted; that in a body has the same bound (see `llm/llm-request.ts`). */
const MAX_MODEL_CHARACTERS = 256

/** Whether the gateway will settle what the request takes. Only a single field with exactly this value says so. */
export function asksToSettle(view: RequestView): boolean {
  return view.header('x-edge-settle') === '1'
}

/**
 * Returns the gateway's facts about a body that is not read here. `hasHints` says whether these fields are used. Undefined if there are none, or no rule
 * needs them.
 */
export function hintedBody(view: RequestView, { needsBody }: Plan, hasHints: boolean): BodyFacts {
  if (!hasHints || !needsBody) return undefined
  const prompt = view.header('x-edge-prompt-tokens')
  const most = view.header('x-edge-max-tokens')
  const model = view.header('x-edge-model')
  const unseen = view.header('x-edge-unseen-prompt')
  if (prompt === REPEATED || most === REPEATED || model === REPEATED || unseen === REPEATED) return 'repeated_descriptor'
  if (prompt === undefined && most === undefined && model === undefined) return undefined
  const requestedTokens = tokensOf(most)
  const hasUnseenPrompt = unseen === '1' || undefined
  return { promptTokens: tokensOf(prompt) ?? 0, requestedTokens, choices: 1, isStream: false, model: modelOf(model), hasUnseenPrompt }
}

/** Treats anything but a positive whole number as absent. */
function tokensOf(value: FieldValue): number | undefined {
  if (typeof value !== 'string' || !/^\d+$/.test(value)) return undefined
  return Math.min(Number(value), MAX_TOKENS) || undefined
}

function modelOf(value: FieldValue): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_MODEL_CHARACTERS ? value : undefined
}
