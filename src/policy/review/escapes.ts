import { printableText, quoted } from '../../text/printable.ts'
import { formatPath, type Problem } from '../../text/problem.ts'
import { type DescriptorKey, KEY_KINDS, parseDescriptorKey } from '../descriptor-key.ts'
import { listOf } from '../rule-match.ts'
import type { Policy, Rule } from '../schema/bundle.ts'
import { coverageOf, coversHost, type PolicyCoverage } from './coverage.ts'

/** Bounds the steps of all comparisons between policies. Only a bundle with thousands of policies needs more; a policy that would take more than is left goes unchecked. */
const MAX_STEPS = 3_000_000

/**
 * Finds limits that a client escapes by sending less: a rule is skipped if a request lacks one of its limit keys. The *bare* request leaves
 * out all that clients may leave out; if neither its policy nor another enforcing policy limits or blocks it, its policy is reported, once.
 * A limit on requests does not make up for a budget: a single request can spend all of that.
 *
 * Two ways of writing a rule say that this is meant, and are not reported: a `match` on the presence of the key, and an `unlimited` with
 * `match: else`.
 */
export function* findEscapes(policies: readonly Policy[]): Generator<Problem> {
  const steps = { left: MAX_STEPS }
  const budgets = limitingPolicies(policies, true)
  const all = limitingPolicies(policies, false)
  for (const [p, policy] of policies.entries()) {
    if (!isEnforcing(policy) || policy.spec.rules.some(exemptsOthers)) continue
    const r = escapedRule(policy, true, budgets, steps) ?? escapedRule(policy, false, all, steps)
    if (r === undefined) continue
    yield { path: formatPath(['policies', p, 'spec', 'rules', r, 'limit_keys']), message: messageOf(policy.spec.rules[r]!) }
  }
}

function limitingPolicies(policies: readonly Policy[], isForBudgets: boolean): PolicyCoverage[] {
  return policies
    .filter((policy) => isEnforcing(policy) && policy.spec.rules.some((rule) => limitsBareRequests(rule, isForBudgets)))
    .map(coverageOf)
}

/**
 * Returns the index of the rule to be changed, among budgets or among other limits: an `else`, because there can only be one, or the first.
 * Returns undefined if none is escaped, or if it would take too many steps to tell.
 */
function escapedRule(
  policy: Policy,
  isForBudgets: boolean,
  limiting: readonly PolicyCoverage[],
  steps: { left: number },
): number | undefined {
  const { rules } = policy.spec
  if (rules.some((rule) => limitsBareRequests(rule, isForBudgets))) return undefined
  const escaped = rules.flatMap((rule, r) => (isBudget(rule) === isForBudgets && isEscaped(rule) ? [r] : []))
  if (escaped.length === 0 || isCoveredBy(coverageOf(policy), limiting, steps)) return undefined
  return escaped.find((r) => rules[r]!.match === 'else') ?? escaped[0]
}

function isBudget({ algorithm }: Rule): boolean {
  return algorithm === 'token_bucket_llm' || algorithm === 'cost_budget'
}

/** Whether the other policies together cover all paths, hosts and methods of this one, or it would take too many steps to tell. */
function isCoveredBy(own: PolicyCoverage, limiting: readonly PolicyCoverage[], steps: { left: number }): boolean {
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

function hostSteps({ hosts = new Set() }: PolicyCoverage): number {
  let steps = 1
  for (const host of hosts) steps += stepsFor(host) * host.split('.').length
  return steps
}

/** Policies for the rate limit service see no requests. */
function isEnforcing({ spec: { mode, selector } }: Policy): boolean {
  return mode === 'enforce' && selector?.domain === undefined
}

/** Whether the rule limits every bare request that its policy covers, for budgets by a budget, or blocks it. A block that ends does not. */
function limitsBareRequests(rule: Rule, isForBudgets: boolean): boolean {
  const { algorithm, algorithm_config: config, match, limit_keys: keys } = rule
  if (algorithm === 'unlimited' || keys.some(isOmittable)) return false
  if (algorithm === 'block' ? config.expires_at !== undefined : isForBudgets && !isBudget(rule)) return false
  return typeof match !== 'object' || Object.entries(match).every(([key, given]) => !isOmittable(key) && listOf(given).includes('*'))
}

function exemptsOthers({ algorithm, match }: Rule): boolean {
  return algorithm === 'unlimited' && match === 'else'
}

/** Whether a request escapes the rule without one of its limit keys, and `match` does not say that it applies only to those who send it. */
function isEscaped({ match, limit_keys: keys }: Rule): boolean {
  const present = new Set(typeof match === 'object' ? Object.keys(match).map(carrierOf) : [])
  return keys.some((key) => isOmittable(key) && !present.has(carrierOf(key)))
}

function isOmittable(text: string): boolean {
  return KEY_KINDS[parseDescriptorKey(text)!.kind].source === 'client'
}

/** What a client leaves out: clients cannot take one claim out of a signed token, only leave out the token. */
function carrierOf(text: string): string {
  const key = parseDescriptorKey(text)!
  return isInAuthorization(key) ? 'header:authorization' : key.text
}

function isInAuthorization({ kind }: DescriptorKey): boolean {
  return kind === 'jwt' || kind === 'bearer'
}

function messageOf(rule: Rule): string {
  const { match, limit_keys: keys } = rule
  const omittable = keys.filter(isOmittable)
  const gain = isBudget(rule) ? 'escapes this budget' : 'is not limited'
  const what = `a client that leaves out ${omittable.map(printableText).join(' or ')} ${gain}`
  if (match === 'else') return `${what}: write limit_keys: ["ip:address"] here, or add a rule by ip:address without match`
  const presence = omittable.map((key) => `${quoted(key)}: "*"`).join(', ')
  return `${what}: write match: { ${presence} } here, and add a rule with match: else and limit_keys: ["ip:address"]`
}
