import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import type { Plan, PlanRule } from '../../../src/policy/plan.ts'
import { bundle, policy } from './bundles.ts'

/** The rule of a bundle that has only this one. */
export function compiledRule(rule: object): PlanRule {
  return planOf(bundle(1, policy('p', { rules: [rule] }))).policies[0]!.rules[0]!
}

export function planOf(valid: object): Plan {
  const parsed = parseBundle(JSON.stringify(valid))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

/** What `edge validate` says of a bundle with this rule, each by its place in the rule. */
export function problemsOf(rule: object): { errors: string[]; warnings: string[] } {
  const parsed = parseBundle(oneRule(rule))
  const inRule = ({ path, message }: { path: string; message: string }): string =>
    `${path.replace('policies[0].spec.rules[0].', '')}: ${message}`
  return { errors: parsed.ok ? [] : parsed.problems.map(inRule), warnings: parsed.warnings.map(inRule) }
}

function oneRule(rule: object): string {
  return JSON.stringify(bundle(1, policy('p', { rules: [rule] })))
}
