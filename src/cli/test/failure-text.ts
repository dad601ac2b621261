import { policyJson } from '../../admin/api/explain/explanation-json.ts'
import type { ExplainedPolicyJson, ExplainedRuleJson } from '../../admin/api/types.ts'
import type { CaseFailure } from '../../cases/run-case.ts'
import type { Allowed } from '../../engine/decision.ts'
import { REASONS } from '../../engine/reasons.ts'
import { amountText } from '../admin/counter-text.ts'
import { MISMATCHES, rejectedText, whyNotText } from '../admin/explain-text.ts'
import { printable } from '../admin/printable.ts'

/** Of the rules and policies that did nothing, so many are named. */
const MAX_NAMED = 5

/** What came in place of what was expected, and why: sentences for somebody who looks for the mistake in the bundle or in the case. */
export function explainFailure(failure: CaseFailure): string[] {
  const { response } = failure
  const { decision } = response.answer
  const policies = lookedAt(failure)
  if (decision === undefined) return [REASONS[response.reason].meaning]
  const ruled = policies.find(({ id }) => id === response.policy)?.rules.find(({ name }) => name === response.rule)
  const name = `Rule ${response.rule} of policy ${response.policy}`
  if (decision.action === 'reject') return [`${name} rejects it.`, ...whyRejected(response.reason, ruled)]
  if (response.reason !== 'all_rules_passed') {
    return [`${name} would reject it, but its policy is in shadow mode.`, ...whyRejected(response.reason, ruled)]
  }
  return [closestText(decision), ...idleText(policies, failure.expected.policy)]
}

function whyRejected(reason: string, rule: ExplainedRuleJson | undefined): string[] {
  return rule === undefined ? [] : [rejectedText(reason, rule)]
}

/** The policies that cover the request, the one that was expected to decide, and a few others of both kinds. */
function lookedAt({ explanation, expected }: CaseFailure): ExplainedPolicyJson[] {
  const kept: ExplainedPolicyJson[] = []
  const others = { far: 0, near: 0 }
  for (const explained of explanation.policies) {
    const isOther = explained.why !== undefined && explained.policy.id !== expected.policy
    if (isOther && others[isFar(explained.why) ? 'far' : 'near']++ >= MAX_NAMED) continue
    // The values are those of the case itself.
    kept.push(printable(policyJson(explained, ([value]) => value!)) as ExplainedPolicyJson)
  }
  return kept
}

/** It has nothing to do with requests of this path. */
function isFar(why: ExplainedPolicyJson['why'] | undefined): boolean {
  return why === 'path' || why === 'domain'
}

function closestText({ limit }: Allowed): string {
  if (limit === undefined) return 'It is allowed: no enforcing rule limits it.'
  const { rule, remaining, limitText } = limit
  const kind = rule.counters[0]?.part
  const left = `${amountText(remaining, kind)} of ${amountText(Number(limitText), kind)} left after it`
  return `It is allowed. Closest to its limit is rule ${rule.name} of policy ${rule.policy.id}: ${left}.`
}

/**
 * Why rules that could have rejected it did not: those of policies that cover it first, then the policies that nearly do. `expected`: the
 * policy that should have.
 */
function idleText(policies: readonly ExplainedPolicyJson[], expected: string | undefined): string[] {
  const named = policies.filter(({ id }) => id === expected)
  const asked = named.length > 0 ? named : policies
  const idle = asked.flatMap(({ id, rules }) =>
    rules
      .filter(({ applied }) => !applied)
      .map((rule) => `Rule ${rule.name} of policy ${id} does not apply: ${whyNotText(rule.why, rule.descriptors)}.`),
  )
  const others = asked.filter(({ matched }) => !matched).sort((a, b) => Number(isFar(a.why)) - Number(isFar(b.why)))
  const uncovered = others.map(({ id, why }) => `Policy ${id} does not cover it: ${MISMATCHES[why ?? ''] ?? why}.`)
  return [...idle, ...uncovered].slice(0, MAX_NAMED)
}
