import type { BodyFacts } from '../engine/decide-options.ts'
import type { Reason } from '../engine/reasons.ts'
import { MAX_TOKENS } from '../llm/usage.ts'
import type { Plan } from '../policy/plan.ts'
import { type FieldValue, REPEATED, type RequestView } from '../request/view.ts'

/** A question as a door has read it: may this request go on? */
export interface Question {
  readonly door: Door
  /** The request that is asked about, or why it cannot be told. A field that comes twice is never guessed. */
  original(): RequestView | Reason
  /** All cookies in one text: they may name a debug session. */
  cookie(): string | undefined
  /** Of the call, else of the request that is asked about: what its caller traces. */
  traceparent(): FieldValue
}

/** What asks: the label `door` of `edge_questions_total`. */
export type Door = 'decision' | 'forward_auth' | 'auth_request' | 'ext_authz' | 'ext_authz_grpc' | 'rate_limit' | 'proxy'

/** Is told of each request that was allowed or rejected, with what is known of its body, before the view changes. Must not throw. */
export type NoteDecided = (view: RequestView, body: BodyFacts) => void

/** As long as a body's `model` may be (`llm/llm-request.ts`). */
const MAX_MODEL_CHARACTERS = 256

/** Whether the gateway says that it settles what the request takes. Anything but one field with exactly this value does not. */
export function asksToSettle(view: RequestView): boolean {
  return view.header('x-edge-settle') === '1'
}

/** What the gateway says of a body that is not read here. `hasHints`: whether that counts. Undefined: nothing, or no rule needs it. */
export function hintedBody(view: RequestView, { needsBody }: Plan, hasHints: boolean): BodyFacts {
  if (!hasHints || !needsBody) return undefined
  const prompt = view.header('x-edge-prompt-tokens')
  const most = view.header('x-edge-max-tokens')
  const model = view.header('x-edge-model')
  if (prompt === REPEATED || most === REPEATED || model === REPEATED) return 'repeated_descriptor'
  if (prompt === undefined && most === undefined && model === undefined) return undefined
  return { promptTokens: tokensOf(prompt) ?? 0, requestedTokens: tokensOf(most), choices: 1, isStream: false, model: modelOf(model) }
}

/** What is not a positive whole number counts as absent. */
function tokensOf(value: FieldValue): number | undefined {
  if (typeof value !== 'string' || !/^\d+$/.test(value)) return undefined
  return Math.min(Number(value), MAX_TOKENS) || undefined
}

function modelOf(value: FieldValue): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_MODEL_CHARACTERS ? value : undefined
}
