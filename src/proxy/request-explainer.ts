import { decideInSteps, factsOf, UnrecordedSteps } from '../decide/decide-in-steps.ts'
import { answerHeaders, type DecisionAnswer, refusedAnswer } from '../decide/decision-answer.ts'
import type { ExplainedRoute, ExplainRequest, RequestExplanation } from '../decide/request-explanation.ts'
import type { Engine } from '../engine/engine.ts'
import type { Evaluation } from '../engine/evaluation.ts'
import type { ExplainedPolicy } from '../engine/explain/explanation.ts'
import { NO_LINES } from '../engine/waiting-lines.ts'
import type { HeaderList } from '../http1/header-fields.ts'
import type { CallerVerdict } from '../request/caller.ts'
import { type ExplainedHealth, explainRoute } from './backends/explained-route.ts'
import { errorFields } from './error-response.ts'
import { type AskedBody, type AskedOptions, readAsked } from './incoming-request.ts'

interface ExplainOptions extends AskedOptions {
  readonly health?: ExplainedHealth | undefined
}

/** Explains what the proxy would respond, up to the backend's own response. */
export function requestExplainer(engine: Engine, options: ExplainOptions): ExplainRequest {
  return async (asked) => {
    const incoming = readAsked(asked, options)
    if (typeof incoming === 'string') return explanationOf(refusedAnswer('bad_request'), undefined, [])
    const { view, body } = incoming
    const evaluation = engine.open(view, { looks: true, caller: asked.caller, lines: NO_LINES })
    if (evaluation === undefined) return explanationOf(refusedAnswer('no_bundle_loaded'), undefined, [])
    const answer = await decideInSteps(new DescribedSteps(evaluation, body, options.hasLastResort), body, options.maxBodyBytes)
    const { caller } = evaluation
    const route = routeOfAsked(evaluation, body, options.health)
    return { ...explanationOf(answer!, caller, await evaluation.describe({ body: factsOf(body.cost) })), route }
  }
}

/** A request whose body was not read, although its route depends on it, is refused for another reason, and nobody knows its route. */
function routeOfAsked(evaluation: Evaluation, { cost }: AskedBody, health: ExplainedHealth | undefined): ExplainedRoute | undefined {
  if (!evaluation.hasRoutes || (cost === undefined && evaluation.routeNeedsBody())) return undefined
  const facts = factsOf(cost)
  const chosen = evaluation.route(facts)
  if (chosen === 'repeated_descriptor') return undefined
  if (chosen === undefined) return { number: undefined, isSticky: false, candidates: [] }
  return explainRoute(chosen, typeof facts === 'object' ? facts.model : undefined, health)
}

/** Returns the fields of an answer, as the client gets them. */
export function responseFieldsOf(answer: DecisionAnswer): HeaderList {
  const headers = answerHeaders(answer)
  if (answer.decision?.action === 'allow') return headers
  return errorFields(answer.decision?.reason ?? answer.refusal!, headers)
}

/** Describes rules that need the body with the facts in it, even if the head alone decides. */
class DescribedSteps extends UnrecordedSteps {
  readonly #body: AskedBody

  constructor(evaluation: Evaluation, body: AskedBody, hasLastResort: boolean) {
    super(evaluation, hasLastResort)
    this.#body = body
  }

  override async identify(): Promise<DecisionAnswer | undefined> {
    const answer = await super.identify()
    if (answer !== undefined) await this.#body.read()
    return answer
  }

  override async precheck(): Promise<DecisionAnswer | undefined> {
    const rejection = await super.precheck()
    if (rejection !== undefined) await this.#body.read()
    return rejection
  }
}

function explanationOf(answer: DecisionAnswer, caller: CallerVerdict | undefined, policies: Iterable<ExplainedPolicy>): RequestExplanation {
  return { answer, headers: responseFieldsOf(answer), caller, policies }
}
