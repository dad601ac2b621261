import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import { type Limit, NEVER } from '../limiter/limit.ts'
import type { LimitReason, PlanCounter } from '../policy/algorithms/compiled-rule.ts'
import { normalizeHost, PathPrefixes } from '../policy/patterns.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { Selector } from '../policy/schema/bundle.ts'
import { type Descriptors, UNDECIDED, UNREADABLE } from '../request/descriptors.ts'
import { REPEATED } from '../request/view.ts'
import { encodePathText, normalizePath } from '../text/path.ts'
import type { Group, RateLimit } from './decision.ts'
import { isAwaited, type OpenReservations } from './open-reservations.ts'
import { bundleRule } from './overrides/rule-overrides.ts'

export interface Rejection {
  readonly rule: PlanRule
  /** Row in the group of the rule's first counter. */
  readonly firstRow: number
  readonly reason: LimitReason
  readonly limitText: string
  readonly retryAfterMs: number
  readonly canRetry: boolean
  readonly requested: number
  readonly available: number
  readonly awaitsSettlement: boolean
}

/**
 * Shortens the wait of rows that would pass but for what requests in flight have reserved in the window: they wait for those requests rather than for the
 * end of the window. Must be called before choosing the rule that describes the reject.
 */
export function awaitSettlements(group: Group, open: OpenReservations): void {
  const { charges, results } = group
  const { values, valuesFrom, costs } = charges
  const { levels, waitsMs, wallMs } = results
  for (let i = 0; i < group.ruleCount; i++) {
    const { counters } = group.rules[i]!
    for (let c = 0; c < counters.length; c++) {
      const row = group.firstRows[i]! + c
      const counter = counters[c]!
      if (waitsMs[row] === 0 || waitsMs[row] === NEVER || !isAwaited(counter)) continue
      const reserved = open.sumOf(counter, values, valuesFrom[row]!, valuesFrom[row + 1]!, wallMs)
      if (reserved <= 0 || levels[row]! + reserved < costs[row]!) continue
      waitsMs[row] = Math.min(waitsMs[row]!, open.waitMs(counter))
      group.awaiting.push(row)
    }
  }
}

/** Returns the rejection by the rule with the longest wait, or the first of them in bundle order. */
export function longestRejection(group: Group): Rejection {
  let worst = 0
  let longestMs = -1
  for (let i = 0; i < group.ruleCount; i++) {
    const waitMs = ruleWaitMs(group, i)
    if (waitMs > longestMs) {
      longestMs = waitMs
      worst = i
    }
  }
  return rejectionBy(group, worst)
}

/** Describes the rejection by the rule at `index` of the group, which does not pass. Rejects come in floods, so this allocates nothing but its result. */
export function rejectionBy(group: Group, index: number): Rejection {
  const rule = group.rules[index]!
  const { counters } = rule
  const { waitsMs } = group.results
  const firstRow = group.firstRows[index]!
  const lastRow = firstRow + counters.length - 1
  let row = firstRow
  while (row < lastRow && waitsMs[row] === 0) row++
  const rejecting = counters[row - firstRow]!
  let retryAfterMs = 0
  for (let c = 0; c < counters.length; c++) retryAfterMs = Math.max(retryAfterMs, knownWaitMs(group, firstRow + c, counters[c]!.limit))
  return {
    rule: bundleRule(rule),
    firstRow,
    reason: rejecting.reason,
    limitText: rejecting.limitText,
    retryAfterMs,
    canRetry: ruleWaitMs(group, index) < NEVER,
    requested: group.charges.costs[row]! / rejecting.unit,
    available: leftOf(group.results.levels[row]!, rejecting),
    awaitsSettlement: group.awaiting.includes(row),
  }
}

/** Returns the state of the most constrained rule: the one with the smallest remaining share, or the first of them in bundle order. */
export function mostConstrained(group: Group): RateLimit | undefined {
  if (group.ruleCount === 0) return undefined
  const { levels, wallMs } = group.results
  let scarcest = group.rules[0]!
  let counter = scarcest.counters[0]!
  let level = levels[0]!
  for (let i = 0; i < group.ruleCount; i++) {
    const { counters } = group.rules[i]!
    for (let c = 0; c < counters.length; c++) {
      const other = levels[group.firstRows[i]! + c]!
      // This compares other / its size < level / size without the divisions.
      if (other * counter.size < level * counters[c]!.size) {
        scarcest = group.rules[i]!
        counter = counters[c]!
        level = other
      }
    }
  }
  return {
    rule: bundleRule(scarcest),
    limitText: counter.limitText,
    remaining: shownLevel(level, counter),
    resetMs: algorithmOf(counter.limit).resetMs(counter.limit, level, wallMs),
  }
}

/** Returns how long until the rule at `index` of the group would pass. */
export function ruleWaitMs(group: Group, index: number): number {
  const firstRow = group.firstRows[index]!
  let longestMs = 0
  for (let c = 0; c < group.rules[index]!.counters.length; c++) longestMs = Math.max(longestMs, group.results.waitsMs[firstRow + c]!)
  return longestMs
}

/** Returns the wait or, if no wait would help, the time until the limit is full again. */
function knownWaitMs({ results }: Group, row: number, limit: Limit): number {
  const waitMs = results.waitsMs[row]!
  return waitMs === NEVER ? algorithmOf(limit).resetMs(limit, results.levels[row]!, results.wallMs) : waitMs
}

/** Returns the remainder for a message: whole tokens, but money with all its decimals, because a request may cost less than a hundredth. */
function leftOf(level: number, counter: PlanCounter): number {
  return counter.unit === 1 ? shownLevel(level, counter) : Math.max(0, level / counter.unit)
}

/** Rounds down to whole units of the counter. Settlements may leave a debt, which is reported as 0. */
export function shownLevel(level: number, { unit }: PlanCounter): number {
  return Math.max(0, Math.floor(unit === 1 ? level : level / unit))
}

export const APPLIES = 0
/** A key of its match has no value or another one, or the rule is an `else` and another rule applies. */
export const NO_MATCH = 1
export const LACKS_KEY = 2
/** A value that it is keyed by is repeated, or could be read in more than one way. */
export const AMBIGUOUS_MATCH = 3
/** Whether the rule applies depends on the body, which has not been read yet. */
export const NEEDS_BODY = 4
/** The rule is a block that has expired. */
export const OVER = 5

export type Verdict = typeof APPLIES | typeof NO_MATCH | typeof LACKS_KEY | typeof AMBIGUOUS_MATCH | typeof NEEDS_BODY | typeof OVER

/** Decides which rules of a policy apply to a request. It is reused: its results hold until the next `judge`. */
export class RuleVerdicts {
  readonly #verdicts: Verdict[] = []
  /** The first block that applies. */
  block: PlanRule | undefined
  /** Whether a rule is keyed by a value that is repeated or ambiguous. */
  hasRepeated = false

  /** The verdict for rules that depend on the body. */
  #needingBody: Verdict = NEEDS_BODY

  /** Judges all rules of a policy and notes no missing keys. `isBodyAmbiguous` means that the body was read but can be understood in more than one way. */
  judge({ rules }: PlanPolicy, descriptors: Descriptors, wallMs: number, isBodyAmbiguous: boolean): void {
    this.block = undefined
    this.hasRepeated = false
    this.#needingBody = isBodyAmbiguous ? AMBIGUOUS_MATCH : NEEDS_BODY
    let elseIndex = -1
    let elseVerdict: Verdict = APPLIES
    for (let i = 0; i < rules.length; i++) {
      const rule = rules[i]!
      if (rule.isElse) {
        elseIndex = i
        continue
      }
      const verdict = this.#note(i, rule, verdictOf(rule, descriptors, wallMs))
      if (rule.match === undefined) continue
      if (verdict === APPLIES) elseVerdict = NO_MATCH
      else if (verdict === NEEDS_BODY && elseVerdict === APPLIES) elseVerdict = NEEDS_BODY
    }
    if (elseIndex < 0) return
    const rule = rules[elseIndex]!
    this.#note(elseIndex, rule, elseVerdict === APPLIES ? verdictOf(rule, descriptors, wallMs) : elseVerdict)
  }

  of(index: number): Verdict {
    return this.#verdicts[index]!
  }

  #note(index: number, rule: PlanRule, verdict: Verdict): Verdict {
    const noted = verdict === NEEDS_BODY ? this.#needingBody : verdict
    this.#verdicts[index] = noted
    if (noted === AMBIGUOUS_MATCH) this.hasRepeated = true
    if (verdict === APPLIES && rule.block !== undefined) this.block ??= rule
    return verdict
  }
}

function verdictOf(rule: PlanRule, descriptors: Descriptors, wallMs: number): Verdict {
  if (rule.block !== undefined && rule.block.expiresAtMs <= wallMs) return OVER
  const verdict = matchVerdict(rule, descriptors)
  if (verdict === NO_MATCH || verdict === AMBIGUOUS_MATCH) return verdict
  // A body cannot supply a key that is missing in the head.
  const keys = keysVerdict(rule, descriptors)
  return keys === APPLIES ? verdict : keys
}

/** Reads all keys, because a repeated field is refused even if another key does not match. */
function matchVerdict({ match }: PlanRule, descriptors: Descriptors): Verdict {
  let verdict: Verdict = APPLIES
  let isUnreadable = false
  if (match === undefined) return verdict
  for (let i = 0; i < match.length; i++) {
    const { keyIndex, patterns } = match[i]!
    const value = descriptors.get(keyIndex)
    if (value === REPEATED) verdict = AMBIGUOUS_MATCH
    else if (verdict === AMBIGUOUS_MATCH || verdict === NO_MATCH) continue
    else if (value === UNREADABLE) isUnreadable = true
    else if (value === UNDECIDED) verdict = NEEDS_BODY
    else if (value === undefined || !patterns.cover(value)) verdict = NO_MATCH
  }
  return isUnreadable && verdict !== NO_MATCH ? AMBIGUOUS_MATCH : verdict
}

function keysVerdict({ keyIndexes }: PlanRule, descriptors: Descriptors): Verdict {
  let verdict: Verdict = APPLIES
  for (let i = 0; i < keyIndexes.length; i++) {
    const value = descriptors.get(keyIndexes[i]!)
    if (value === REPEATED) return AMBIGUOUS_MATCH
    if (value === undefined || value === UNREADABLE) verdict = LACKS_KEY
    else if (value === UNDECIDED && verdict === APPLIES) verdict = NEEDS_BODY
  }
  return verdict
}

export type Mismatch = 'domain' | 'path' | 'except_path' | 'method' | 'host'

/**
 * Returns why a selector does not cover a request, or undefined if it does. This is for explanations only: decisions use the route index, which never
 * visits policies that do not match. Paths, host and method must be normalised.
 */
export function mismatchOf(selector: Selector, path: string, host: string, method: string, exceptedPath = path): Mismatch | undefined {
  if (selector.domain !== undefined) return 'domain'
  if (!coversPath(selector, path)) return 'path'
  if (selector.exceptPaths !== undefined && new PathPrefixes(selector.exceptPaths).cover(exceptedPath)) return 'except_path'
  if (selector.methods !== undefined && !selector.methods.some((one) => one.toUpperCase() === method)) return 'method'
  return selector.hosts === undefined || selector.hosts.some((pattern) => coversHost(pattern, host)) ? undefined : 'host'
}

function coversPath({ pathExact, pathPrefix = '/' }: Selector, path: string): boolean {
  if (pathExact !== undefined) return path === normalizePath(encodePathText(pathExact))
  const prefix = normalizePath(encodePathText(pathPrefix)).replace(/\/$/, '')
  return path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/')
}

function coversHost(pattern: string, host: string): boolean {
  return pattern.startsWith('*.') ? host.endsWith(`.${normalizeHost(pattern.slice(2))}`) : host === normalizeHost(pattern)
}
