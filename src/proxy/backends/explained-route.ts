import type { ExplainedChoice, ExplainedRoute } from '../../decide/request-explanation.ts'
import type { ChosenRoute } from '../../engine/evaluation.ts'
import type { Choice } from '../../policy/routes/routing.ts'
import type { Clock } from '../../time/clock.ts'
import { stickyKey, stickyScore } from './attempt-plan.ts'
import type { BackendHealth, CoolingState } from './backend-health.ts'

/** How backends are; undefined if nobody knows, and all count as healthy. */
export interface ExplainedHealth {
  readonly health: Pick<BackendHealth, 'stateFor'>
  readonly clock: Clock
}

interface Candidate {
  readonly choice: Choice
  readonly isFallback: boolean
  readonly state: CoolingState
}

const HEALTHY: CoolingState = { state: 'healthy', reason: undefined, sinceMs: undefined, coolingUntilMs: undefined, isProbed: false }

/** Explains which backends of its route a request could be sent to now, by the rules of `AttemptPlan`. `model` is what the client asks for. */
export function explainRoute(
  { route, stickyValues }: ChosenRoute,
  model: string | undefined,
  known: ExplainedHealth | undefined,
): ExplainedRoute {
  const { group, fallback } = route
  const names = [...group.filter(({ weight }) => weight > 0), ...fallback].map(({ backend }) => backend.name)
  const isAlone = new Set(names).size === 1
  const toCandidate = (choice: Choice, isFallback: boolean): Candidate => ({
    choice,
    isFallback,
    state: known?.health.stateFor(choice.backend, choice.model ?? model, isAlone) ?? HEALTHY,
  })
  const candidates = [...group.map((choice) => toCandidate(choice, false)), ...fallback.map((choice) => toCandidate(choice, true))]
  const usable = candidates.filter(({ choice, isFallback }) => isFallback || choice.weight > 0)
  const first = firstOf(usable, stickyKey(stickyValues))
  const total = first.reduce((sum, { choice, isFallback }) => sum + (isFallback ? 1 : choice.weight), 0)
  const shareOf = (candidate: Candidate): number =>
    !first.includes(candidate) ? 0 : first.length === 1 ? 1 : candidate.choice.weight / total
  return {
    number: route.number,
    isSticky: stickyValues !== undefined,
    candidates: candidates.map((candidate) => explained(candidate, shareOf(candidate), known?.clock)),
  }
}

/** Returns the candidates of which one gets the request first; none if all cool, and another request tries already. */
function firstOf(usable: readonly Candidate[], stickTo: string | undefined): readonly Candidate[] {
  if (usable.length <= 1) return usable
  const open = usable.filter(({ state }) => state.state === 'healthy' || (state.state === 'recovering' && !state.isProbed))
  const group = open.filter(({ isFallback }) => !isFallback)
  if (group.length > 0) return stickTo === undefined ? group : [highest(group, ({ choice }) => stickyScore(stickTo, choice))]
  if (open.length > 0) return open.slice(0, 1)
  const nearest = highest(usable, ({ state }) => -(state.coolingUntilMs ?? 0))
  return nearest.state.isProbed ? [] : [nearest]
}

function highest(candidates: readonly Candidate[], scoreOf: (candidate: Candidate) => number): Candidate {
  return candidates.reduce((best, candidate) => (scoreOf(candidate) > scoreOf(best) ? candidate : best))
}

function explained({ choice, isFallback, state }: Candidate, share: number, clock: Clock | undefined): ExplainedChoice {
  const { coolingUntilMs } = state
  return {
    name: choice.backend.name,
    isFallback,
    weight: choice.weight,
    model: choice.model,
    state: state.state === 'recovering' ? 'probing' : state.state,
    reason: state.reason === undefined ? undefined : String(state.reason),
    untilMs: coolingUntilMs === undefined || clock === undefined ? undefined : clock.wallMs() + coolingUntilMs - clock.nowMs(),
    share,
  }
}
