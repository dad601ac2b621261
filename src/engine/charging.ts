import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import { UNDECIDED } from '../request/descriptors.ts'
import type { Run } from './run.ts'
import { APPLIES, LACKS_KEY, NEEDS_BODY, OVER } from './verdict.ts'

/**
 * Adds a policy's rules to the run's group. Rules that lack a descriptor are skipped, and their missing keys noted. All keys are read.
 * `isHeadOnly`: those that need the body are left for later.
 */
export function chargePolicy(run: Run, policy: PlanPolicy, isHeadOnly: boolean): void {
  if (!policy.isPlain) return chargeApplying(run, policy, isHeadOnly)
  for (let i = 0; i < policy.rules.length; i++) {
    const rule = policy.rules[i]!
    if (isUndecided(run, rule, isHeadOnly)) leaveUndecided(run, rule)
    else chargeRule(run, rule)
  }
}

/** The same where not all rules apply to everybody. The limit keys of a rule that does not match are not read. */
function chargeApplying(run: Run, policy: PlanPolicy, isHeadOnly: boolean): void {
  const verdicts = run.judge(policy)
  if (verdicts.hasRepeated) run.hasRepeated = true
  for (let i = 0; i < policy.rules.length; i++) {
    const rule = policy.rules[i]!
    const verdict = verdicts.of(i)
    // One that is over reads nothing.
    for (let m = 0; verdict !== OVER && m < (rule.match?.length ?? 0); m++) noteIfMissing(run, rule.match![m]!.keyIndex)
    if (verdict === LACKS_KEY) for (let k = 0; k < rule.keyIndexes.length; k++) noteIfMissing(run, rule.keyIndexes[k]!)
    else if (verdict === NEEDS_BODY || (verdict === APPLIES && isUndecided(run, rule, isHeadOnly))) leaveUndecided(run, rule)
    else if (verdict === APPLIES) chargeRule(run, rule)
  }
}

/** Whether it needs a body that is not read yet, or can be understood in more than one way. */
function isUndecided(run: Run, rule: PlanRule, isHeadOnly: boolean): boolean {
  return rule.needsBody && (isHeadOnly || run.isBodyAmbiguous) && run.inForce(rule).needsBody
}

/** Under the override that is in force for this caller, if there is one. */
function chargeRule(run: Run, bundled: PlanRule): void {
  const variant = run.overrides === undefined ? undefined : run.variantOf(bundled)
  const rule = variant === undefined ? bundled : variant.rule
  const { group } = run
  const { charges } = group
  const cost = rule.cost.of(run)
  if (Number.isNaN(cost)) {
    run.hasRepeated = true
    return
  }
  const firstRow = charges.length
  for (let c = 0; c < rule.counters.length; c++) {
    if (!addValues(run, rule)) break
    charges.add(variant === undefined ? run.active!.counters[rule.counters[c]!.index]! : variant.counters[c]!, cost)
  }
  if (charges.length > firstRow) group.add(rule, firstRow)
}

/** Returns false, and adds none, where one is missing. */
function addValues(run: Run, rule: PlanRule): boolean {
  const { charges } = run.group
  const before = charges.valueCount
  let isComplete = true
  for (let k = 0; k < rule.keyIndexes.length; k++) {
    const index = rule.keyIndexes[k]!
    const value = run.valueOf(index)
    if (typeof value === 'string') charges.addValue(value)
    else {
      isComplete = false
      run.noteMissing(index, value)
    }
  }
  if (!isComplete) charges.dropValues(before)
  return isComplete
}

/** Notes what a rule that needs the body lacks besides; if nothing, that it needs the body, or that nobody knows what that says. */
function leaveUndecided(run: Run, rule: PlanRule): void {
  const { keyIndexes, cost, needsBody } = rule
  let needsOnlyBody = true
  for (let k = 0; k < keyIndexes.length; k++) {
    const index = keyIndexes[k]!
    const value = run.valueOf(index)
    if (typeof value === 'string' || value === UNDECIDED) continue
    needsOnlyBody = false
    run.noteMissing(index, value)
  }
  if (!cost.needsBody && Number.isNaN(cost.of(run))) run.hasRepeated = true
  // An `else` may wait for another rule.
  if (needsOnlyBody && run.isBodyAmbiguous) run.hasRepeated = true
  else if (needsBody && needsOnlyBody) run.noteBodyNeed(rule)
}

function noteIfMissing(run: Run, index: number): void {
  const value = run.valueOf(index)
  if (typeof value !== 'string') run.noteMissing(index, value)
}

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
