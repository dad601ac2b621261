import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import { APPLIES } from './rule-verdicts.ts'
import type { Run } from './run.ts'

/** The first block of an enforcing policy that applies. */
export function findBlock(run: Run): PlanRule | undefined {
  if (!run.active!.plan.hasBlocks && run.overrides === undefined) return undefined
  const { policies, count } = run.matches
  for (let i = 0; i < count; i++) {
    const policy = policies[i]!
    const block = policy.isShadow ? undefined : blockIn(run, policy)
    if (block !== undefined) return block
  }
  return undefined
}

/** The first rule of the policy that applies and blocks, by itself or by an override. */
export function blockIn(run: Run, policy: PlanPolicy): PlanRule | undefined {
  const { overrides } = run
  if (overrides === undefined) return policy.hasBlocks ? run.judge(policy).block : undefined
  if (!overrides.mayBlock(policy)) return undefined
  const verdicts = run.judge(policy)
  return policy.rules.find((rule, i) => verdicts.of(i) === APPLIES && run.inForce(rule).block !== undefined)
}

/** The first block of an enforcing policy that applies and ends streams under way. */
export function findStreamCut(run: Run): PlanRule | undefined {
  const { policies, count } = run.matches
  for (let i = 0; i < count; i++) {
    const policy = policies[i]!
    if (!policy.hasBlocks || policy.isShadow) continue
    const verdicts = run.judge(policy)
    if (verdicts.block === undefined) continue
    const rule = policy.rules.find(
      (each, r) => each.block?.cutsStreams && verdicts.of(r) === APPLIES && run.inForce(each).block !== undefined,
    )
    if (rule !== undefined) return rule
  }
  return undefined
}
