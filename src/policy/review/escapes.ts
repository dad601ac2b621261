import { quoted } from '../../text/printable.ts'
import { formatPath, type Problem } from '../../text/problem.ts'
import { listOf } from '../rule-match.ts'
import type { Policy, Rule } from '../schema/bundle.ts'
import type { Callers } from '../schema/callers.ts'
import { OmittableKeys } from './caller-escapes.ts'
import { coverageOf, coversHost, type SelectorCoverage } from './coverage.ts'

/** Bounds the steps of all comparisons between policies. Only a bundle with thousands of policies needs more; a policy that would take more than is left goes unchecked. */
const MAX_STEPS = 3_000_000

/**
 * Finds limits that a client escapes by sending less: a rule is skipped if a request lacks one of its limit keys. The *bare* request leaves
 * out all that clients may leave out; if neither its policy nor another enforcing policy limits or blocks it, its policy is reported, once.
 * A limit on requests does not make up for a budget: a single request can spend all of that.
 *
 * An `unlimited` with `match: else` says that this is meant, and is not reported. A `match` on the key says only whom the rule is for, not that all others
 * may pass.
 */
export function* findEscapes(policies: readonly Policy[], callers?: Callers): Generator<Problem> {
  const omittable = new OmittableKeys(callers)
  const steps = { left: MAX_STEPS }
  const budgets = limitingPolicies(policies, true, omittable)
  const all = limitingPolicies(policies, false, omittable)
  for (const [p, policy] of policies.entries()) {
    if (!isEnforcing(policy) || policy.spec.rules.some(exemptsOthers)) continue
    const r = escapedRule(policy, true, budgets, omittable, steps) ?? escapedRule(policy, false, all, omittable, steps)
    if (r === undefined) continue
    yield { path: formatPath(['policies', p, 'spec', 'rules', r, 'limit_keys']), message: messageOf(policy.spec.rules, r, omittable) }
  }
}

function limitingPolicies(policies: readonly Policy[], isForBudgets: boolean, omittable: OmittableKeys): SelectorCoverage[] {
  return policies
    .filter((policy) => isEnforcing(policy) && policy.spec.rules.some((rule) => limitsBareRequests(rule, isForBudgets, omittable)))
    .map(({ spec }) => coverageOf(spec.selector))
}

/**
 * Returns the index of the rule to be changed, among budgets or among other limits: an `else`, because there can only be one, or the first.
 * Returns undefined if none is escaped, or if it would take too many steps to tell.
 */
function escapedRule(
  policy: Policy,
  isForBudgets: boolean,
  limiting: readonly SelectorCoverage[],
  omittable: OmittableKeys,
  steps: { left: number },
): number | undefined {
  const { rules } = policy.spec
  if (rules.some((rule) => limitsBareRequests(rule, isForBudgets, omittable))) return undefined
  const escaped = rules.flatMap((rule, r) => (isBudget(rule) === isForBudgets && isEscaped(rule, omittable) ? [r] : []))
  if (escaped.length === 0 || isCoveredBy(coverageOf(policy.spec.selector), limiting, steps)) return undefined
  return escaped.find((r) => rules[r]!.match === 'else') ?? escaped[0]
}

function isBudget({ algorithm }: Rule): boolean {
  return algorithm === 'token_bucket_llm' || algorithm === 'cost_budget'
}

/** Whether the other policies together cover all paths, hosts and methods of this one, or it would take too many steps to tell. */
function isCoveredBy(own: SelectorCoverage, limiting: readonly SelectorCoverage[], steps: { left: number }): boolean {
  const pathSteps = limiting.length * stepsFor(own.path)
  if (pathSteps > steps.left) return true
  steps.left -= pathSteps
  const others = limiting.filter((other) => other.covers(own.path, own.isExact))
  const pairSteps = others.length * (own.methods?.size ?? 1) * hostSteps(own)
  if (pairSteps > steps.left) return true
  steps.left -= pairSteps
  for (const method of own.methods ?? [undefined]) {
    const rest = others.filter((other) => other.methods === undefined || (method !== undefined && other.methods.has(method)))
    for (const host of own.hosts ?? [undefined]) if (!rest.some((other) => coversHost(other, host))) return false
  }
  return true
}

/** What it takes to compare a path or a host: all of it is read, a segment or a label at a time. */
function stepsFor(text: string): number {
  return 1 + Math.floor(text.length / 8)
}

function hostSteps({ hosts = new Set() }: SelectorCoverage): number {
  let steps = 1
  for (const host of hosts) steps += stepsFor(host) * host.split('.').length
  return steps
}

/** Policies for the rate limit service see no requests. */
function isEnforcing({ spec: { mode, selector } }: Policy): boolean {
  return mode === 'enforce' && selector?.domain === undefined
}

/** Whether the rule limits every bare request that its policy covers, for budgets by a budget, or blocks it. A block that ends does not. */
function limitsBareRequests(rule: Rule, isForBudgets: boolean, omittable: OmittableKeys): boolean {
  const { algorithm, algorithm_config: config, match, limit_keys: keys } = rule
  if (algorithm === 'unlimited' || keys.some((key) => omittable.has(key))) return false
  if (algorithm === 'block' ? config.expires_at !== undefined : isForBudgets && !isBudget(rule)) return false
  return typeof match !== 'object' || Object.entries(match).every(([key, given]) => !omittable.has(key) && listOf(given).includes('*'))
}

function exemptsOthers({ algorithm, match }: Rule): boolean {
  return algorithm === 'unlimited' && match === 'else'
}

/** Whether a request escapes the rule without one of its limit keys, whatever its `match`: a token that is no JWT has no claims. */
function isEscaped({ limit_keys: keys }: Rule, omittable: OmittableKeys): boolean {
  return keys.some((key) => omittable.has(key))
}

/** What is wrong, and a recipe that can be pasted into a bundle as it stands, in YAML or JSON. */
function messageOf(rules: readonly Rule[], r: number, omittable: OmittableKeys): string {
  const rule = rules[r]!
  const lacking = rule.limit_keys.filter((key) => omittable.has(key))
  const gain = isBudget(rule) ? 'escapes this budget' : 'is not limited'
  const what = `${omittable.describe(lacking)} ${gain}`
  if (rule.match === 'else') return `${what}: write "limit_keys": ["ip:address"] here`
  const presence = lacking.map((key) => `${quoted(key)}: "*"`).join(', ')
  // Without a match on any rule, an else would apply to everybody.
  const here = `${omittable.remedyFor(lacking)}${rule.match === undefined ? `write "match": { ${presence} } here, and ` : ''}`
  // There can be only one else. Here it lets such clients pass sooner or later, or limits only how many requests they send.
  const present = rules.find(({ match }) => match === 'else')
  if (present !== undefined) return `${what}: ${here}replace the rule ${quoted(present.name)} by ${elseText(present.name, isBudget(rule))}`
  const name = freeName(rules)
  const pass = `{ "name": ${quoted(name)}, "match": "else", "algorithm": "unlimited" }`
  return `${what}: ${here}add the rule ${elseText(name, isBudget(rule))}. If such clients may pass, add ${pass} instead`
}

/** No budget is right for those who hide who they are. */
function elseText(name: string, isForBudgets: boolean): string {
  if (isForBudgets) return `{ "name": ${quoted(name)}, "match": "else", "algorithm": "block" }`
  const limit = '"limit_keys": ["ip:address"], "algorithm": "token_bucket", "algorithm_config": { "rate": "10/minute" }'
  return `{ "name": ${quoted(name)}, "match": "else", ${limit} }`
}

/** A name that no rule of the policy has. */
function freeName(rules: readonly Rule[]): string {
  const taken = new Set(rules.map(({ name }) => name))
  for (let i = 1; ; i++) {
    const name = i === 1 ? 'others' : `others-${i}`
    if (!taken.has(name)) return name
  }
}
