import { printableText, quoted } from '../../text/formats.ts'
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
 *
 * Two ways of writing a rule say that this is meant, and are not reported: a `match` on the presence of the key, and an `unlimited` with
 * `match: else`.
 */
export function* findEscapes(policies: readonly Policy[]): Generator<Problem> {
  const enforcing = policies.filter(isEnforcing)
  const limiting = enforcing.filter(({ spec }) => spec.rules.some(limitsBareRequests)).map(coverageOf)
  let left = MAX_STEPS
  for (const [p, policy] of policies.entries()) {
    const { rules } = policy.spec
    if (!isEnforcing(policy) || rules.some((rule) => limitsBareRequests(rule) || exemptsOthers(rule))) continue
    const r = escapedRule(rules)
    if (r === undefined) continue
    const own = coverageOf(policy)
    const pathSteps = limiting.length * stepsFor(own.path)
    if (pathSteps > left) continue
    left -= pathSteps
    const others = limiting.filter((other) => other.covers(own.path, own.isExact))
    const pairSteps = others.length * (own.methods?.size ?? 1) * hostSteps(own)
    if (pairSteps > left) continue
    left -= pairSteps
    if (isCoveredBy(own, others)) continue
    yield { path: formatPath(['policies', p, 'spec', 'rules', r, 'limit_keys']), message: messageOf(rules[r]!) }
  }
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

/** Whether the rule limits or blocks every bare request that its policy covers. A block that ends does not. */
function limitsBareRequests({ algorithm, algorithm_config: config, match, limit_keys: keys }: Rule): boolean {
  if (algorithm === 'unlimited' || (algorithm === 'block' && config.expires_at !== undefined) || keys.some(isOmittable)) return false
  return typeof match !== 'object' || Object.entries(match).every(([key, given]) => !isOmittable(key) && listOf(given).includes('*'))
}

function exemptsOthers({ algorithm, match }: Rule): boolean {
  return algorithm === 'unlimited' && match === 'else'
}

/** Returns the index of the rule to be changed: an `else`, because there can only be one, or the first that bare requests escape. */
function escapedRule(rules: readonly Rule[]): number | undefined {
  const escaped = rules.flatMap((rule, r) => (isEscaped(rule) ? [r] : []))
  return escaped.find((r) => rules[r]!.match === 'else') ?? escaped[0]
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

/** Whether the other policies together cover each host and each method. All of them cover the path. */
function isCoveredBy({ methods, hosts }: PolicyCoverage, others: readonly PolicyCoverage[]): boolean {
  for (const method of methods ?? [undefined]) {
    const rest = others.filter((other) => other.methods === undefined || (method !== undefined && other.methods.has(method)))
    for (const host of hosts ?? [undefined]) if (!rest.some((other) => coversHost(other, host))) return false
  }
  return true
}

function messageOf({ match, limit_keys: keys }: Rule): string {
  const omittable = keys.filter(isOmittable)
  const what = `a client that leaves out ${omittable.map(printableText).join(' or ')} is not limited`
  if (match === 'else') return `${what}: write limit_keys: ["ip:address"] here, or add a rule by ip:address without match`
  const presence = omittable.map((key) => `${quoted(key)}: "*"`).join(', ')
  return `${what}: write match: { ${presence} } here, and add a rule with match: else and limit_keys: ["ip:address"]`
}
