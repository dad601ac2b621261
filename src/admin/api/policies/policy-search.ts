import type { PlanPolicy } from '../../../policy/plan.ts'

/** After so many texts others get their turn: a policy can name a hundred thousand hosts. */
const TEXTS_A_STEP = 200

/**
 * The first `count` policies whose id, mode, selector or rules contain the text, in any case. Undefined finds all of them.
 */
export function* searchSteps(policies: Iterable<PlanPolicy>, text: string | undefined, count: number): Generator<void, PlanPolicy[]> {
  const found: PlanPolicy[] = []
  const wanted = text?.toLowerCase()
  for (const policy of policies) {
    if (found.length === count) break
    if (wanted === undefined || (yield* containsSteps(policy, wanted))) found.push(policy)
    yield
  }
  return found
}

function* containsSteps(policy: PlanPolicy, wanted: string): Generator<void, boolean> {
  let texts = 0
  for (const text of textsOf(policy)) {
    if (text.toLowerCase().includes(wanted)) return true
    if (++texts % TEXTS_A_STEP === 0) yield
  }
  return false
}

function* textsOf({ id, mode, selector, rules }: PlanPolicy): Generator<string> {
  yield id
  yield mode
  const { pathPrefix, pathExact, exceptPaths = [], methods = [], hosts = [], domain, descriptors = {} } = selector
  for (const text of [pathPrefix, pathExact, domain]) if (text !== undefined) yield text
  yield* methods
  yield* hosts
  yield* exceptPaths
  yield* Object.keys(descriptors)
  for (const { name, limitKeys, source } of rules) {
    yield name
    yield source.algorithm
    yield* limitKeys
  }
}
