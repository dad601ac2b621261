import { hintedBody } from '../../decide/gateway-fields.ts'
import { type AskedRequest, type ExplainRequest, explainDecision, explainRefusal } from '../../decide/request-explanation.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { RequestView } from '../../request/view.ts'
import { DECISION } from '../question-shapes.ts'
import { HttpQuestion } from './http-question.ts'

/** What `/v1/decision` would respond. The body is not read there; `hasHints`: what the gateway says of it counts. */
export function questionExplainer(engine: Engine, hasHints: boolean): ExplainRequest {
  return async (asked) => {
    const { plan } = engine
    if (plan === undefined) return explainRefusal('no_bundle_loaded')
    const view = askedQuestion(asked)
    if (typeof view === 'string') return explainRefusal(view)
    return explainDecision(await engine.explainStepwise(view, { body: hintedBody(view, plan, hasHints) }))
  }
}

/** The request as `/v1/decision` reads it, or why it is refused. */
export function askedQuestion(asked: AskedRequest): RequestView | Reason {
  return new HttpQuestion(DECISION, { rawHeaders: questionFields(asked) }).original()
}

function questionFields({ method, uri, host, fields }: AskedRequest): string[] {
  const original = ['X-Original-Method', method, 'X-Original-URI', uri]
  return host === undefined ? [...original, ...fields] : [...original, 'X-Original-Host', host, ...fields]
}
