import { isInBody, mayComeInSocket } from '../policy/descriptor-key.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import { type DescriptorValue, UNDECIDED } from '../request/descriptors.ts'
import { REPEATED_FIELD, UNCOUNTED_SOCKET } from './conclusion.ts'
import { APPLIES, LACKS_KEY, NEEDS_BODY, OVER } from './rule-verdicts.ts'
import type { Run } from './run.ts'

/**
 * Adds a policy's rules to the run's group. Rules that lack a descriptor are skipped, and their missing keys are noted; all keys are read for that. If
 * `isHeadOnly`, rules that need the body are left for later.
 */
export function chargePolicy(run: Run, policy: PlanPolicy, isHeadOnly: boolean): void {
  if (!policy.isPlain) return chargeApplying(run, policy, isHeadOnly)
  for (let i = 0; i < policy.rules.length; i++) {
    const rule = policy.rules[i]!
    if (isUndecided(run, rule, isHeadOnly)) leaveUndecided(run, rule)
    else chargeRule(run, rule)
  }
}

/** Adds the rules of an enforcing policy, which refuses a WebSocket that it could not count. */
export function chargeEnforcing(run: Run, policy: PlanPolicy, isHeadOnly: boolean): void {
  chargePolicy(run, policy, isHeadOnly)
  if (run.opensSocket && refusesSocket(run, policy)) run.refusal ??= UNCOUNTED_SOCKET
}

/** Whether a rule that would count nothing in a WebSocket applies, or would with the model or the key that may come later. */
function refusesSocket(run: Run, policy: PlanPolicy): boolean {
  const { keys } = run.active!.plan
  const get = (index: number): DescriptorValue => {
    const value = isInBody(keys[index]!) ? undefined : run.valueOf(index)
    return value === undefined && mayComeInSocket(keys[index]!) ? UNDECIDED : value
  }
  run.verdicts.judge(policy, { get }, run.wallMs, false)
  return policy.rules.some((rule, i) => {
    const verdict = run.verdicts.of(i)
    return (verdict === APPLIES || verdict === NEEDS_BODY) && run.inForce(rule).refusesSockets
  })
}

/** Charges a policy in which not all rules apply to everybody. The limit keys of a rule that does not match are not read. */
function chargeApplying(run: Run, policy: PlanPolicy, isHeadOnly: boolean): void {
  const verdicts = run.judge(policy)
  if (verdicts.hasRepeated) run.refusal = REPEATED_FIELD
  for (let i = 0; i < policy.rules.length; i++) {
    const rule = policy.rules[i]!
    const verdict = verdicts.of(i)
    // An expired block reads no keys.
    for (let m = 0; verdict !== OVER && m < (rule.match?.length ?? 0); m++) noteIfMissing(run, rule.match![m]!.keyIndex)
    if (verdict === LACKS_KEY) for (let k = 0; k < rule.keyIndexes.length; k++) noteIfMissing(run, rule.keyIndexes[k]!)
    else if (verdict === NEEDS_BODY || (verdict === APPLIES && isUndecided(run, rule, isHeadOnly))) leaveUndecided(run, rule)
    else if (verdict === APPLIES) chargeRule(run, rule)
  }
}

/** Whether the rule needs a body that has not been read yet or can be understood in more than one way. */
function isUndecided(run: Run, rule: PlanRule, isHeadOnly: boolean): boolean {
  return rule.needsBody && (isHeadOnly || run.isBodyAmbiguous) && run.inForce(rule).needsBody
}

/** Charges the rule, under the override in force for this caller if there is one. */
function chargeRule(run: Run, bundled: PlanRule): void {
  const variant = run.overrides === undefined ? undefined : run.variantOf(bundled)
  const rule = variant === undefined ? bundled : variant.rule
  const { group } = run
  const { charges } = group
  const cost = rule.cost.of(run)
  if (Number.isNaN(cost)) {
    run.refusal = REPEATED_FIELD
    return
  }
  const firstRow = charges.length
  for (let c = 0; c < rule.counters.length; c++) {
    if (!addValues(run, rule)) break
    charges.add(variant === undefined ? run.active!.counters[rule.counters[c]!.index]! : variant.counters[c]!, cost)
  }
  if (charges.length === firstRow) return
  group.add(rule, firstRow)
}

/** Returns false and adds no values if one is missing. */
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

/** Notes which keys a rule lacks besides the body. If it lacks none, notes that it needs the body, or that the body is ambiguous. */
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
  if (!cost.needsBody && Number.isNaN(cost.of(run))) run.refusal = REPEATED_FIELD
  // An `else` that needs no body itself may be undecided because it waits for another rule.
  if (needsOnlyBody && run.isBodyAmbiguous) run.refusal = REPEATED_FIELD
  else if (needsBody && needsOnlyBody) run.noteBodyNeed(rule)
}

function noteIfMissing(run: Run, index: number): void {
  const value = run.valueOf(index)
  if (typeof value !== 'string') run.noteMissing(index, value)
}

/** Returns the first applicable block of an enforcing policy. */
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

/** Returns the first rule of the policy that applies and blocks, by itself or under an override. */
export function blockIn(run: Run, policy: PlanPolicy): PlanRule | undefined {
  const { overrides } = run
  if (overrides === undefined) return policy.hasBlocks ? run.judge(policy).block : undefined
  if (!overrides.mayBlock(policy)) return undefined
  const verdicts = run.judge(policy)
  return policy.rules.find((rule, i) => verdicts.of(i) === APPLIES && run.inForce(rule).block !== undefined)
}

/** Returns the first applicable block of an enforcing policy that also ends streams in progress. */
export function findStreamCut(run: Run): PlanRule | undefined {
  const { policies, count } = run.matches
  for (let i = 0; i < count; i++) {
    const policy = policies[i]!
    const mayCut = run.overrides === undefined ? policy.hasBlocks : run.overrides.mayCutStreams(policy)
    if (!mayCut || policy.isShadow) continue
    const verdicts = run.judge(policy)
    const rule = policy.rules.find((each, r) => verdicts.of(r) === APPLIES && cutsStreams(each, run.inForce(each)))
    if (rule !== undefined) return rule
  }
  return undefined
}

/** Whether the rule ends streams as it is in force: a block of the bundle still does if an override blocks the rule once more. */
function cutsStreams(bundled: PlanRule, { block }: PlanRule): boolean {
  return block !== undefined && (block.cutsStreams || bundled.block?.cutsStreams === true)
}
