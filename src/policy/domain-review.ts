import { parseDescriptorKey } from './descriptor-key.ts'
import { formatPath, type Path, type Problem, show } from './problem.ts'
import { field, isObject, listIn } from './unchecked-data.ts'

/**
 * What does not fit together in a policy for the rate limit service, or in one that is not and speaks of descriptors. Checks whatever is
 * readable.
 */
export function* domainContradictions(policy: unknown, path: Path): Generator<Problem> {
  const spec = field(policy, 'spec')
  const selector = field(spec, 'selector')
  const hasDomain = field(selector, 'domain') !== undefined
  const rules = listIn(spec, 'rules')
  const hasMatch = rules.some((rule) => isObject(field(rule, 'match')))
  yield* keyProblems(field(selector, 'descriptors'), true, [...path, 'spec', 'selector', 'descriptors'])
  for (const [r, rule] of rules.entries()) {
    const place = [...path, 'spec', 'rules', r]
    yield* keyProblems(field(rule, 'match'), hasDomain, [...place, 'match'])
    for (const [k, key] of listIn(rule, 'limit_keys').entries()) yield* keyProblem(key, hasDomain, [...place, 'limit_keys', k])
    if (!hasDomain) continue
    yield* ruleProblems(rule, place)
    if (coversNothing(rule, isObject(field(selector, 'descriptors')), hasMatch)) {
      yield { path: formatPath(place), message: 'it covers no descriptor: name the keys of one in limit_keys or match' }
    }
  }
}

function* keyProblems(match: unknown, hasDomain: boolean, path: Path): Generator<Problem> {
  if (isObject(match)) for (const key of Object.keys(match)) yield* keyProblem(key, hasDomain, [...path, key])
}

function* keyProblem(text: unknown, hasDomain: boolean, path: Path): Generator<Problem> {
  const key = typeof text === 'string' ? parseDescriptorKey(text) : undefined
  if (key === undefined || (key.kind === 'descriptor') === hasDomain) return
  const message = hasDomain
    ? `expected descriptor:<name> in a policy with a domain, got ${show(text)}: calls of the rate limit service have only descriptors`
    : `expected a selector with a domain for ${show(text)}: other requests have no descriptors`
  yield { path: formatPath(path), message }
}

/** Algorithms and settings that calls of the rate limit service give no meaning to. */
function* ruleProblems(rule: unknown, path: Path): Generator<Problem> {
  const algorithm = field(rule, 'algorithm')
  const refused = typeof algorithm === 'string' ? REFUSED_ALGORITHMS[algorithm] : undefined
  if (refused !== undefined) yield { path: formatPath([...path, 'algorithm']), message: `${show(algorithm)} has no domain: ${refused}` }
  const config = field(rule, 'algorithm_config')
  for (const [name, why] of Object.entries(REFUSED_FIELDS)) {
    const value = field(config, name)
    if (refused === undefined && value !== undefined && value !== false) {
      yield { path: formatPath([...path, 'algorithm_config', name]), message: `expected none in a policy with a domain: ${why}` }
    }
  }
}

const REFUSED_ALGORITHMS: Readonly<Record<string, string | undefined>> = {
  concurrency: 'nobody reports the end of a request; use fixed_window or token_bucket',
  cost_budget: 'hits are whole numbers, not money; use fixed_window with when_over: charge',
}

const REFUSED_FIELDS: Readonly<Record<string, string>> = {
  cost: 'a call says itself how many hits it takes',
  max_completion_tokens: 'the hits of a call are its tokens',
  streaming: 'the hits of a call are its tokens',
  cut_streams: 'it ends no streams',
}

/** An `else` without keys of its own covers descriptors with the keys of the other rules. */
function coversNothing(rule: unknown, hasOwnKeys: boolean, hasMatch: boolean): boolean {
  if (hasOwnKeys || listIn(rule, 'limit_keys').length > 0) return false
  const match = field(rule, 'match')
  return match === undefined || (match === 'else' && !hasMatch)
}
