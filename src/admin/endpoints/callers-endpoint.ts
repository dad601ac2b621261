import { setImmediate } from 'node:timers/promises'
import type { CallerDigest } from '../../engine/decide-options.ts'
import { type CounterName, type Inspection, shownValues } from '../../engine/explain/inspection.ts'
import type { ListedOverride } from '../../overrides/override.ts'
import { isCaller } from '../../policy/caller-match.ts'
import { countedUnit } from '../../policy/counted-unit.ts'
import type { Plan } from '../../policy/plan.ts'
import { findPolicy } from '../api/api-request.ts'
import { type ApiRoute, SlicedTexts } from '../api/api-route.ts'
import type { CallerRule, CallersJson, IncompleteRule, TopJson } from '../api/caller-types.ts'
import type { OverrideJson } from '../api/types.ts'
import type { TopAsk } from './activity-endpoints.ts'
import { type CallerQuestion, readCallerQuestion } from './caller-question.ts'
import { type ConcernedRule, type ConcernedRules, concernedSteps } from './concerned-rules.ts'
import { counterJson, heldRequests } from './counters-endpoints.ts'
import { overrideJson } from './override-json.ts'

interface CallersParts {
  readonly plan: () => Plan | undefined
  readonly inspect: (name: CounterName) => Inspection | Promise<Inspection>
  readonly overrides: () => Promise<Iterable<ListedOverride>>
  /** Undefined where EDGE_TOP is off. */
  readonly top: ((ask: TopAsk) => Promise<TopJson>) | undefined
  /** Converts credentials to digests. */
  readonly callerDigest: CallerDigest
}

/** How many rows of each list of `top` are returned. */
const MAX_TOP_ROWS = 100
/** How many rules the store is asked about at once. In memory that takes a moment, in which this thread decides nothing. */
const AT_ONCE = 25

const NOTHING: ConcernedRules = { rules: [], leftOut: 0, unusedKeys: [] }

/**
 * POST callers: everything that is known of one caller, by some of its values. There is no GET, because values may be credentials and URLs are logged. Nothing
 * is taken from any counter.
 */
export function callersEndpoint({ plan, inspect, overrides, top, callerDigest }: CallersParts): ApiRoute {
  const sliced = new SlicedTexts()
  return {
    method: 'POST',
    path: 'callers',
    handle: async ({ body }) => {
      const question = readCallerQuestion(body, callerDigest)
      const active = plan()
      if (question.policy !== undefined) findPolicy(active, question.policy)
      const concerned = active === undefined ? NOTHING : await sliced.make(concernedSteps(active, question))
      const [rules, set, found] = await Promise.all([
        countedRules(
          concerned.rules.filter(({ missing }) => missing.length === 0),
          inspect,
          callerDigest,
        ),
        overrides().then((listed) => sliced.make(overrideSteps(listed, question, concerned, active))),
        top?.({ policy: question.policy, rule: undefined, caller: question.match, limit: MAX_TOP_ROWS }) ?? null,
      ])
      const json: CallersJson = {
        bundle_version: active === undefined ? null : String(active.version),
        rules: 'values' in question.given ? rules : rules.filter((rule) => isKnown(rule, set, found)),
        rules_tried: rules.length,
        counters_known: rules.every(({ counters }) => counters !== null),
        incomplete_rules: concerned.rules.filter(({ missing }) => missing.length > 0).map((one) => incompleteRule(one, callerDigest)),
        rules_left_out: concerned.leftOut,
        unused_keys: concerned.unusedKeys,
        overrides: set,
        top: found,
      }
      return { status: 200, json }
    },
  }
}

/** Whether anything is known of a value alone as a value of this rule. */
function isKnown(rule: CallerRule, overrides: readonly OverrideJson[], top: TopJson | null): boolean {
  if (rule.counted || Object.keys(rule.values).length === 0) return true
  const named = [...overrides.filter(({ values }) => values), ...(top?.rejected ?? []), ...(top?.nearest ?? [])]
  return named.some((one) => one.policy === rule.policy && one.rule === rule.rule)
}

/** Reads the counters of rules whose limit keys are all known. Requests are decided in between. Once the store is unavailable, it is not asked again. */
async function countedRules(
  concerned: readonly ConcernedRule[],
  inspect: CallersParts['inspect'],
  callerDigest: CallerDigest,
): Promise<CallerRule[]> {
  const found: CallerRule[] = []
  let isUnavailable = false
  for (let i = 0; i < concerned.length; i += AT_ONCE) {
    if (i > 0) await setImmediate()
    const some = concerned.slice(i, i + AT_ONCE)
    const inspections: readonly Inspection[] = isUnavailable ? [] : await Promise.all(some.map((one) => inspect(counterName(one))))
    for (const [j, one] of some.entries()) found.push({ ...shownRule(one, callerDigest), ...countedIn(one, inspections[j]) })
    isUnavailable = inspections.length === 0 || inspections.some((one) => !one.ok && one.error === 'store_unavailable')
  }
  return found
}

function counterName({ rule: { policy, name }, values }: ConcernedRule): CounterName {
  return { policy: policy.id, rule: name, values: Object.fromEntries(values) }
}

function countedIn({ rule }: ConcernedRule, inspection: Inspection | undefined): Omit<CallerRule, keyof ReturnType<typeof shownRule>> {
  const unit = countedUnit(rule)
  // Another bundle may have become active meanwhile, without the rule.
  if (!inspection?.ok) return { unit, counters: null, counted: false, holds: null, override: null }
  const { counters, override } = inspection
  return {
    unit,
    counters: counters.map(counterJson),
    counted: counters.some(({ level, limit }) => level < limit),
    holds: heldRequests(counters),
    override: override?.id ?? null,
  }
}

function incompleteRule(concerned: ConcernedRule, callerDigest: CallerDigest): IncompleteRule {
  return { ...shownRule(concerned, callerDigest), missing: concerned.missing }
}

function shownRule({ rule, values, dependsOn }: ConcernedRule, callerDigest: CallerDigest): Omit<IncompleteRule, 'missing'> {
  const { id, mode, selector } = rule.policy
  return {
    policy: id,
    rule: rule.name,
    mode,
    values: shownValues({ limitKeys: [...values.keys()] }, [...values.values()], callerDigest),
    algorithm: rule.source.algorithm,
    selector,
    depends_on: dependsOn,
  }
}

/** There may be many overrides, and each that concerns the caller has to be fitted to its rule. */
function* overrideSteps(
  overrides: Iterable<ListedOverride>,
  { match, policy }: CallerQuestion,
  { rules }: ConcernedRules,
  plan: Plan | undefined,
): Generator<void, OverrideJson[]> {
  const names = new Set(rules.map(({ rule }) => nameOf(rule.policy.id, rule.name)))
  const found: OverrideJson[] = []
  for (const listed of overrides) {
    yield
    const { subject } = listed.override
    const isFound =
      subject === 'all_policies' ||
      ((policy === undefined || subject.policy === policy) &&
        (subject.values === undefined ? names.has(nameOf(subject.policy, subject.rule)) : isCaller(match, subject.values)))
    if (isFound) found.push(overrideJson(listed, plan))
  }
  return found
}

function nameOf(policy: string, rule: string): string {
  return JSON.stringify([policy, rule])
}
