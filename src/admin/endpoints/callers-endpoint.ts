import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { CallerDigest } from '../../engine/decide-options.ts'
import { type CounterName, type Inspection, shownValues } from '../../engine/explain/inspection.ts'
import type { ListedOverride } from '../../overrides/override.ts'
import { isCaller } from '../../policy/caller-match.ts'
import { countedUnit } from '../../policy/counted-unit.ts'
import { isCredential } from '../../policy/descriptor-key.ts'
import type { Plan } from '../../policy/plan.ts'
import { findPolicy, readQuery } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type { CallerRule, CallersJson, IncompleteRule, KnownCallers, TopJson } from '../api/caller-types.ts'
import { looksLikeDigest } from '../api/counter-name.ts'
import { LongResponses, type LongWork } from '../api/long-responses.ts'
import type { OverrideJson } from '../api/types.ts'
import type { TopAsk } from './activity-endpoints.ts'
import { type CallerQuestion, readCallerQuestion } from './caller-question.ts'
import { type ConcernedRule, type ConcernedRules, concernedSteps } from './concerned-rules.ts'
import { counterJson, heldRequests, isCounted } from './counters-endpoints.ts'
import { overrideJson } from './override-json.ts'

interface CallersParts {
  readonly plan: () => Plan | undefined
  readonly wallMs: () => number
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

const NOTHING: ConcernedRules = { complete: [], incomplete: [], leftOut: 0, unusedKeys: [] }

/** How many labels are suggested to somebody who issues a key. */
const MAX_LABELS = 1000

/** GET callers: how the active bundle knows callers, and which of their labels its rules read. */
export function knownCallersEndpoint(plan: () => Plan | undefined): ApiRoute {
  return {
    method: 'GET',
    path: 'callers',
    handle: ({ query }) => {
      readQuery(query, [])
      const active = plan()
      const { mode = null, jwt = [], keys } = active?.callers?.source ?? {}
      const labels = (active?.keys ?? []).flatMap((key) => (key.kind === 'caller' && key.label !== 'id' ? [key.label] : []))
      const json: KnownCallers = {
        bundle_version: active === undefined ? null : String(active.version),
        mode,
        issuers: jwt.map(({ name }) => name),
        keys_from: keys?.from ?? null,
        labels: labels.sort().slice(0, MAX_LABELS),
      }
      return { status: 200, json }
    },
  }
}

/**
 * POST callers: everything that is known of one caller, by some of its values. They are in no URL, because they may be credentials and URLs are logged.
 * Nothing is taken from any counter.
 */
export function callersEndpoint({ plan, wallMs, inspect, overrides, top, callerDigest }: CallersParts): ApiRoute {
  const long = new LongResponses()
  const answer = async (question: CallerQuestion, active: Plan | undefined, work: LongWork): Promise<CallersJson> => {
    const concerned = active === undefined ? NOTHING : await work.make(concernedSteps(active, question, wallMs()))
    const [counted, set, found] = await Promise.all([
      countedRules(concerned.complete, inspect, work),
      overrides().then((listed) => work.make(overrideSteps(listed, question, concerned, active))),
      top?.({ policy: question.policy, rule: undefined, caller: question.match, limit: MAX_TOP_ROWS }) ?? null,
    ])
    const digests = shownDigests(question, set, found)
    const rules = counted.map((one) => callerRule(one, set, digests, callerDigest))
    return {
      bundle_version: active === undefined ? null : String(active.version),
      rules: 'values' in question.given ? rules : rules.filter((rule) => isKnown(rule, set, found)),
      rules_tried: rules.length,
      counters_known: counted.every(({ inspection }) => inspection?.ok),
      incomplete_rules: concerned.incomplete.map((one) => incompleteRule(one, digests, callerDigest)),
      rules_left_out: concerned.leftOut,
      unused_keys: concerned.unusedKeys,
      overrides: set,
      top: found,
    }
  }
  return {
    method: 'POST',
    path: 'callers',
    isForReaders: true,
    handle: ({ body, http }) => {
      const question = readCallerQuestion(body, callerDigest)
      const active = plan()
      if (question.policy !== undefined) findPolicy(active, question.policy)
      return long.serve(http, async (work) => ({ status: 200, json: await answer(question, active, work) }))
    },
  }
}

/** Whether anything is known of a value alone as a value of this rule. */
function isKnown(rule: CallerRule, overrides: readonly OverrideJson[], top: TopJson | null): boolean {
  if (rule.counted || Object.keys(rule.values).length === 0) return true
  const named = [...overrides.filter(({ values }) => values), ...(top?.rejected ?? []), ...(top?.nearest ?? [])]
  return named.some((one) => one.policy === rule.policy && one.rule === rule.rule)
}

/** A rule, and what its counters have. */
interface CountedRule {
  readonly concerned: ConcernedRule
  /** Undefined if the store was not asked, because it was unavailable for another rule. */
  readonly inspection: Inspection | undefined
}

/** Reads the counters of rules whose limit keys are all known. Requests are decided in between. Once the store is unavailable, it is not asked again. */
async function countedRules(
  complete: readonly ConcernedRule[],
  inspect: CallersParts['inspect'],
  { refuseIfGone }: LongWork,
): Promise<CountedRule[]> {
  const found: CountedRule[] = []
  let isUnavailable = false
  for (let i = 0; i < complete.length; i += AT_ONCE) {
    if (i > 0) await setImmediate()
    refuseIfGone()
    const some = complete.slice(i, i + AT_ONCE)
    const inspections: readonly Inspection[] = isUnavailable ? [] : await Promise.all(some.map((one) => inspect(counterName(one))))
    for (const [j, concerned] of some.entries()) found.push({ concerned, inspection: inspections[j] })
    isUnavailable = inspections.length === 0 || inspections.some((one) => !one.ok && one.error === 'store_unavailable')
  }
  return found
}

function counterName({ rule: { policy, name }, values }: ConcernedRule): CounterName {
  return { policy: policy.id, rule: name, values: Object.fromEntries(values) }
}

/** `digests`: what was given as a digest, for certain. */
function callerRule(
  { concerned, inspection }: CountedRule,
  overrides: readonly OverrideJson[],
  digests: ReadonlySet<string>,
  callerDigest: CallerDigest,
): CallerRule {
  const shown = { ...shownRule(concerned, digests, callerDigest), unit: countedUnit(concerned.rule) }
  const unknown = { ...shown, counters: null, by_digest: false, counted: false, holds: null, override: null }
  // Another bundle may have become active meanwhile, without the rule.
  if (!inspection?.ok) return unknown
  const { counters, override } = inspection
  const counted = isCounted(counters)
  // A credential that happens to look like a digest has a counter as soon as it is used.
  if (!counted && [...concerned.values].some(([key, value]) => isCredential(key) && looksLikeDigest(value))) {
    const own = overrides.find((one) => one.in_force && isOverrideOf(one, shown)) ?? override
    return { ...unknown, by_digest: true, override: own?.id ?? null }
  }
  return { ...unknown, counters: counters.map(counterJson), counted, holds: heldRequests(counters), override: override?.id ?? null }
}

function isOverrideOf({ policy, rule, values }: OverrideJson, shown: Pick<CallerRule, 'policy' | 'rule' | 'values'>): boolean {
  return policy === shown.policy && rule === shown.rule && values !== undefined && isDeepStrictEqual({ ...values }, { ...shown.values })
}

/** Texts in the question that are digests for certain, because operators see them as such elsewhere. Others may be credentials, and are not returned. */
function shownDigests({ match }: CallerQuestion, overrides: readonly OverrideJson[], top: TopJson | null): ReadonlySet<string> {
  const asked = 'byKey' in match ? [...match.byKey.values()].flat() : match.credential
  const seen = new Set<string>()
  for (const { values } of [...overrides, ...(top?.rejected ?? []), ...(top?.nearest ?? [])])
    for (const [key, value] of Object.entries(values ?? {})) if (isCredential(key)) seen.add(value)
  return new Set(asked.filter((text) => seen.has(text)))
}

function incompleteRule(concerned: ConcernedRule, digests: ReadonlySet<string>, callerDigest: CallerDigest): IncompleteRule {
  return { ...shownRule(concerned, digests, callerDigest), missing: concerned.missing, may_be: concerned.mayBe }
}

function shownRule(
  { rule, values, dependsOn }: ConcernedRule,
  digests: ReadonlySet<string>,
  callerDigest: CallerDigest,
): Omit<IncompleteRule, 'missing' | 'may_be'> {
  const { id, mode, selector } = rule.policy
  return {
    policy: id,
    rule: rule.name,
    mode,
    values: shownValues({ limitKeys: [...values.keys()] }, [...values.values()], ([value]) =>
      digests.has(value!) ? value! : callerDigest([value!]),
    ),
    algorithm: rule.source.algorithm,
    selector,
    match_else: rule.isElse,
    depends_on: dependsOn,
  }
}

/** There may be many overrides, and each that concerns the caller has to be fitted to its rule. */
function* overrideSteps(
  overrides: Iterable<ListedOverride>,
  { match, policy }: CallerQuestion,
  { complete, incomplete }: ConcernedRules,
  plan: Plan | undefined,
): Generator<void, OverrideJson[]> {
  const names = new Set([...complete, ...incomplete].map(({ rule }) => nameOf(rule.policy.id, rule.name)))
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
