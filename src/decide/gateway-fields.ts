import type { BodyFacts } from '../engine/question.ts'
import { MAX_TOKENS } from '../llm/tokens.ts'
import type { Plan } from '../policy/plan.ts'
import { type FieldValue, REPEATED, type RequestView } from '../request/view.ts'

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
