import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { IN_FLIGHT, NEVER } from '../limiter/limit.ts'
import type { PlanCounter } from '../policy/algorithms/compiled-rule.ts'
import { identityName } from '../policy/compile.ts'
import { ruleWaitMs } from './conclusion.ts'
import type { Group } from './decision.ts'
import { bundleRule } from './overrides/rule-overrides.ts'
import type { Wait, WaitingLines } from './waiting-lines.ts'

/** Nobody knows when a request in flight will end, so a request that waits for one is decided again this often. */
const IN_FLIGHT_LOOK_MS = 50

/** Whether requests wait ahead of this one for a counter that it is charged to. */
export function isBehind(group: Group, lines: WaitingLines): boolean {
  for (let i = 0; i < group.ruleCount; i++) {
    const { counters, maxWaitMs } = group.rules[i]!
    if (maxWaitMs === 0) continue
    for (let c = 0; c < counters.length; c++) if (lines.aheadIn(lineOf(group, i, c)) > 0) return true
  }
  return false
}

/**
 * Lengthens the waits of rows by what those ahead will take, so that nobody overtakes them and everybody knows how long it would be. Returns whether any
 * row does not pass. What is left after those ahead is free for all.
 */
export function lengthenWaits(group: Group, lines: WaitingLines): boolean {
  const { levels, waitsMs, wallMs } = group.results
  let isRejected = false
  for (let i = 0; i < group.ruleCount; i++) {
    const { counters, maxWaitMs } = group.rules[i]!
    for (let c = 0; c < counters.length; c++) {
      const row = group.firstRows[i]! + c
      const { limit } = counters[c]!
      const ahead = maxWaitMs === 0 || waitsMs[row] === NEVER ? 0 : lines.aheadIn(lineOf(group, i, c))
      if (ahead > 0) {
        const waitMs = algorithmOf(limit).waitMs(limit, levels[row]! - ahead, group.charges.costs[row]!, wallMs)
        waitsMs[row] = Math.max(waitsMs[row]!, waitMs)
      }
      if (waitsMs[row]! > 0) isRejected = true
    }
  }
  return isRejected
}

/** Returns how a request whose group does not fit could wait; undefined if a rule rejects it for good, or for too long. */
export function waitOf(group: Group): Wait | undefined {
  const needs: { line: string; cost: number }[] = []
  let [lookMs, slackMs, maxMs] = [0, NEVER, NEVER]
  let longest = -1
  let isOpenEnded = false
  for (let i = 0; i < group.ruleCount; i++) {
    const rule = group.rules[i]!
    if (ruleWaitMs(group, i) === 0) continue
    const isInFlight = rule.counters[0]!.limit.kind === IN_FLIGHT
    const waitMs = ruleWaitMs(group, i) === NEVER ? NEVER : isInFlight ? IN_FLIGHT_LOOK_MS : ruleWaitMs(group, i)
    if (rule.maxWaitMs === 0 || waitMs > rule.maxWaitMs) return undefined
    addNeeds(group, i, needs)
    if (waitMs > lookMs) {
      lookMs = waitMs
      longest = i
    }
    maxMs = Math.min(maxMs, rule.maxWaitMs)
    slackMs = Math.min(slackMs, isInFlight ? rule.maxWaitMs : rule.maxWaitMs - waitMs)
    isOpenEnded ||= isInFlight
  }
  if (longest < 0) return undefined
  const rule = bundleRule(group.rules[longest]!)
  return { rule, caller: rule.limitKeys.length === 0 ? undefined : lineOf(group, longest, 0), needs, lookMs, slackMs, maxMs, isOpenEnded }
}

function addNeeds(group: Group, index: number, needs: { line: string; cost: number }[]): void {
  const { counters } = group.rules[index]!
  for (let c = 0; c < counters.length; c++) {
    const row = group.firstRows[index]! + c
    if (group.results.waitsMs[row]! > 0) needs.push({ line: lineOf(group, index, c), cost: group.charges.costs[row]! })
  }
}

const NAMES = new WeakMap<PlanCounter, string>()

/** Names a counter and its caller. A bundle that keeps the counter keeps the line; so does an override. */
function lineOf(group: Group, index: number, c: number): string {
  const counter = group.rules[index]!.counters[c]!
  const { values, valuesFrom } = group.charges
  const row = group.firstRows[index]! + c
  let name = NAMES.get(counter)
  if (name === undefined) {
    name = identityName(counter)
    NAMES.set(counter, name)
  }
  return name + JSON.stringify(values.slice(valuesFrom[row]!, valuesFrom[row + 1]!))
}
