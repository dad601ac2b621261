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
  /** Of the rule's counters in the group. */
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
 * Where only what requests in flight have reserved keeps a window from covering the request, it waits until they are over, and not for the end
 * of the window. To be called before the rule that describes the reject is chosen.
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

/** The rule that describes a reject: the one with the longest wait, the first in the bundle on ties. */
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

/** The rule at `index` of the group, which does not pass. Rejects come in floods: this allocates nothing but its result. */
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

/** The state of the most constrained rule: the one with the smallest share left, the first in the bundle on ties. */
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
      // level / size < other level / other size, without the divisions
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

/** How long until the rule at `index` of the group would pass. */
export function ruleWaitMs(group: Group, index: number): number {
  const firstRow = group.firstRows[index]!
  let longestMs = 0
  for (let c = 0; c < group.rules[index]!.counters.length; c++) longestMs = Math.max(longestMs, group.results.waitsMs[firstRow + c]!)
  return longestMs
}

/** Where no wait would help, the time until the limit is full again. */
function knownWaitMs({ results }: Group, row: number, limit: Limit): number {
  const waitMs = results.waitsMs[row]!
  return waitMs === NEVER ? algorithmOf(limit).resetMs(limit, results.levels[row]!, results.wallMs) : waitMs
}

/** What a message says is left: whole tokens, and money to its last decimal, because a request may cost less than a hundredth. */
function leftOf(level: number, counter: PlanCounter): number {
  return counter.unit === 1 ? shownLevel(level, counter) : Math.max(0, level / counter.unit)
}

/** In whole units of the counter. Settlements may leave a debt, which is reported as 0. */
export function shownLevel(level: number, { unit }: PlanCounter): number {
  return Math.max(0, Math.floor(unit === 1 ? level : level / unit))
}

export const APPLIES = 0
/** A key of its match has no value, or another one; or it is an `else`, and another rule applies. */
export const NO_MATCH = 1
export const LACKS_KEY = 2
/** A field that it is keyed by is repeated. */
export const AMBIGUOUS_MATCH = 3
/** Whether it applies depends on the body, which is not read yet. */
export const NEEDS_BODY = 4
/** A block that has expired. */
export const OVER = 5

export type Verdict = typeof APPLIES | typeof NO_MATCH | typeof LACKS_KEY | typeof AMBIGUOUS_MATCH | typeof NEEDS_BODY | typeof OVER

/** Which rules of one policy apply to a request. Used again for others: what it says holds until the next `judge`. */
export class RuleVerdicts {
  readonly #verdicts: Verdict[] = []
  /** The first block that applies. */
  block: PlanRule | undefined
  /** Whether a rule is keyed by a field that is repeated. */
  hasRepeated = false

  /** What becomes of rules that depend on the body. */
  #needingBody: Verdict = NEEDS_BODY

  /** Reads what the rules are keyed by, and notes nothing. `isBodyAmbiguous`: the body was read, and can be understood in more than one way. */
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
  // What a rule lacks in the head, no body brings.
  const keys = keysVerdict(rule, descriptors)
  return keys === APPLIES ? verdict : keys
}

/** All are read: a repeated field is refused even where another one does not match. */
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
 * Why a selector does not cover a request; undefined where it does. For explanations: decisions use the route index, which never visits
 * policies that do not match. Paths, host and method are normalised.
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
