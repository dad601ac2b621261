import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { PlanRule } from '../policy/plan.ts'
import type { DescriptorStatus } from './limit-call.ts'
import type { MergedGroup } from './merged-group.ts'
import { bundleRule } from './variant.ts'
import { rejectionBy, ruleWaitMs, shownLevel } from './verdict.ts'

/** No rule limits the descriptor. */
export const NO_LIMIT: DescriptorStatus = Object.freeze({ isOver: false, rule: undefined, stated: undefined, remaining: 0, resetMs: 0 })

/** A rule says that nothing limits it. */
export const UNLIMITED: DescriptorStatus = Object.freeze({ ...NO_LIMIT, remaining: Number.POSITIVE_INFINITY })

export function blockedStatus(rule: PlanRule): DescriptorStatus {
  return { isOver: true, rule, stated: undefined, remaining: 0, resetMs: 0 }
}

/** The worst of the first `count` entries: the one with the longest wait, else the one with the smallest share left. The first on ties. */
export function worstStatus(group: MergedGroup, entries: readonly number[], count: number): DescriptorStatus {
  let over = -1
  let longestMs = 0
  for (let i = 0; i < count; i++) {
    const waitMs = ruleWaitMs(group, entries[i]!)
    if (waitMs <= longestMs) continue
    longestMs = waitMs
    over = entries[i]!
  }
  return over >= 0 ? overStatus(group, over) : scarcestStatus(group, entries, count)
}

function overStatus(group: MergedGroup, entry: number): DescriptorStatus {
  const { rule, retryAfterMs } = rejectionBy(group, entry)
  const firstRow = group.firstRows[entry]!
  const c = rule.counters.findIndex((_, index) => group.results.waitsMs[firstRow + index]! > 0)
  return { isOver: true, rule, stated: group.stated[entry]![c], remaining: 0, resetMs: retryAfterMs }
}

function scarcestStatus(group: MergedGroup, entries: readonly number[], count: number): DescriptorStatus {
  const { levels, wallMs } = group.results
  let scarcest = -1
  let counter = 0
  let level = 0
  let share = Number.POSITIVE_INFINITY
  for (let i = 0; i < count; i++) {
    const { counters } = group.rules[entries[i]!]!
    for (let c = 0; c < counters.length; c++) {
      const left = levels[group.firstRows[entries[i]!]! + c]!
      if (left / counters[c]!.size >= share) continue
      scarcest = entries[i]!
      counter = c
      level = left
      share = left / counters[c]!.size
    }
  }
  if (scarcest < 0) return NO_LIMIT
  const rule = group.rules[scarcest]!
  const { limit } = rule.counters[counter]!
  return {
    isOver: false,
    rule: bundleRule(rule),
    stated: group.stated[scarcest]![counter],
    remaining: shownLevel(level, rule.counters[counter]!),
    resetMs: algorithmOf(limit).resetMs(limit, level, wallMs),
  }
}
