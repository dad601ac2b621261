import type { ActivePlan } from '../engine/active-plan.ts'
import type { CallerDigest } from '../engine/decide-options.ts'
import type { Group } from '../engine/decision.ts'
import { isAwaited, type OpenReservations, type ReservedCells } from '../engine/open-reservations.ts'
import { bundleRule, subjectDigest } from '../engine/overrides/rule-overrides.ts'
import { algorithmOf } from '../limiter/algorithms/algorithms.ts'
import type { Period } from '../limiter/calendar.ts'
import { WINDOW } from '../limiter/limit.ts'
import type { PlanCounter } from '../policy/algorithms/compiled-rule.ts'
import { isCaller } from '../policy/caller-match.ts'
import { type CountedUnit, countedUnit } from '../policy/counted-unit.ts'
import type { Plan, PlanPolicy, PlanRule } from '../policy/plan.ts'
import { ChargeResults, Charges, type Counter } from '../store/charges.ts'
import type { CounterLocator } from '../store/counter-locator.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { type CallerIds, type KnownRule, type ShownCaller, ValueTexts, valuesAt } from './caller-ids.ts'
import { isRuleAsked, type TopFilter } from './top-filter.ts'

/** How many callers are remembered; the one noted longest ago goes first. */
const MAX_CALLERS = 500
/** How many callers' counters are read for a report, smallest remaining share first, and how many in one call of the store. */
const MAX_LOOKED_AT = 250
const LOOKED_AT_ONCE = 25
/** A caller that has not been noted for this long is forgotten. */
const KEPT_MS = 10 * 60_000

export interface NearCaller extends ShownCaller {
  /** Id of the caller, the same in all threads. */
  readonly id: string
  readonly mode: PlanPolicy['mode']
  /** Describes the counter with the smallest remaining share, in the units that operators see. */
  readonly kind: PlanCounter['part']
  /** Length of the counter's windows, as the bundle writes it; undefined if it has none. */
  readonly period: Period | undefined
  readonly unit: CountedUnit
  readonly level: number
  readonly limit: number
  /** What requests in flight in this process have reserved; undefined if that is not tracked. */
  readonly reserved: number | undefined
}

type Reservations = Pick<OpenReservations, 'cellsOf' | 'sumAt'>

/** The callers of this thread that are nearest to a limit of the active plan. Their counters are found by locators, and full values are not kept. */
export class NearCallers {
  readonly #store: Pick<CounterStore, 'locatorsOf' | 'checkAll'>
  readonly #ids: CallerIds
  readonly #callerDigest: CallerDigest
  readonly #gate = new NearGate()
  readonly #texts: ValueTexts
  /** In the order in which they were last noted, oldest first. */
  readonly #noted = new Map<string, NotedCaller>()
  readonly #open: Reservations | undefined
  #plan: Plan | undefined

  constructor(
    store: Pick<CounterStore, 'locatorsOf' | 'checkAll'>,
    ids: CallerIds,
    callerDigest: CallerDigest,
    open: Reservations | undefined,
  ) {
    this.#open = open
    this.#store = store
    this.#ids = ids
    this.#callerDigest = callerDigest
    this.#texts = new ValueTexts(1, callerDigest)
  }

  /** Notes the callers of a group's rules that have little left. */
  note(group: Group, plan: Plan, nowMs: number): void {
    const gate = this.#gate
    gate.turnTo(nowMs)
    if (plan !== this.#plan) this.#turnTo(plan)
    const { levels } = group.results
    for (let i = 0; i < group.ruleCount; i++) {
      const rule = group.rules[i]!
      const { counters } = rule
      for (let c = 0; c < counters.length; c++) {
        if (levels[group.firstRows[i]! + c]! >= counters[c]!.size * gate.below) continue
        this.#noteCaller(group, i, nowMs)
        break
      }
    }
  }

  /** Forgets callers that have not been noted for too long. */
  sweep(nowMs: number): void {
    for (const [id, { notedMs }] of this.#noted) {
      if (nowMs - notedMs < KEPT_MS) break
      this.#noted.delete(id)
    }
  }

  /** Reads what these callers have left now, under the overrides in force, and takes nothing. Stops early if the store is unavailable. */
  async look(filter: TopFilter, active: ActivePlan | undefined, nowMs: number, wallMs: number): Promise<NearCaller[]> {
    if (active?.plan !== this.#plan) this.#turnTo(active?.plan)
    if (active === undefined) return []
    this.sweep(nowMs)
    const asked = [...this.#noted]
      .filter(
        ([, { shown, rule }]) =>
          isRuleAsked(filter, shown) &&
          (filter.hasBudget !== true || isBudget(rule)) &&
          (filter.caller === undefined || isCaller(filter.caller, shown.values)),
      )
      .map(([id, noted]) => ({ id, ...noted, ...limitsNow(noted, active, nowMs) }))
      .filter((noted) => noted.counters.length > 0 && isInWindow(noted, wallMs))
    const nearest = asked.sort((a, b) => a.share - b.share).slice(0, MAX_LOOKED_AT)
    const found: NearCaller[] = []
    for (let i = 0; i < nearest.length; i += LOOKED_AT_ONCE) {
      const some = nearest.slice(i, i + LOOKED_AT_ONCE)
      const charges = chargesOf(some)
      const results = new ChargeResults()
      if ((await this.#store.checkAll(charges, results, nowMs, wallMs, 'operator')) === 'unavailable') break
      let row = 0
      for (const { id, shown, rule, planCounters, reservedAt } of some) {
        const { level, counter } = scarcest(planCounters, results.levels, row)
        row += planCounters.length
        if (level >= counter.size) continue
        const reserved = reservedAt && isAwaited(counter) ? this.#open!.sumAt(reservedAt) / counter.unit : undefined
        found.push({ id, ...shown, mode: rule.policy.mode, unit: countedUnit(rule), ...nearness(counter, level), reserved })
      }
    }
    return found
  }

  #turnTo(plan: Plan | undefined): void {
    this.#plan = plan
    this.#noted.clear()
  }

  #noteCaller(group: Group, index: number, nowMs: number): void {
    this.#gate.count()
    const rule = group.rules[index]!
    const firstRow = group.firstRows[index]!
    const { charges, results } = group
    const from = charges.valuesFrom[firstRow]!
    const known = this.#ids.identify(rule, charges.values, from)
    const id = `${this.#ids.low}:${this.#ids.high}`
    const before = this.#noted.get(id)
    if (before !== undefined) this.#noted.delete(id)
    else if (this.#noted.size === MAX_CALLERS) this.#noted.delete(this.#noted.keys().next().value!)
    this.#noted.set(id, {
      shown: before?.shown ?? this.#shown(known, charges.values, from),
      locators: before === undefined || hasWindows(rule) ? this.#locatorsOf(group, index) : before.locators,
      rule: bundleRule(rule),
      subject: before?.subject ?? subjectDigest(rule, charges.values.slice(from, from + rule.limitKeys.length), this.#callerDigest),
      reservedAt: this.#reservedAt(rule, charges.values, from, results.wallMs),
      share: shareLeft(rule.counters, results.levels, firstRow),
      notedMs: nowMs,
      wallMs: results.wallMs,
    })
  }

  #shown(known: KnownRule, values: readonly string[], from: number): ShownCaller {
    this.#texts.write(0, known, values, from)
    return { policy: known.policy, rule: known.rule, values: valuesAt(this.#texts.packed([0]), 0, known.limitKeys) }
  }

  #reservedAt(rule: PlanRule, values: readonly string[], from: number, wallMs: number): ReservedCells | undefined {
    const counter = this.#open && rule.counters.find(isAwaited)
    return counter && this.#open.cellsOf(counter, values, from, from + rule.limitKeys.length, wallMs)
  }

  #locatorsOf({ rules, firstRows, charges, results }: Group, index: number): readonly CounterLocator[] {
    const rows = new Charges()
    const firstRow = firstRows[index]!
    for (let c = 0; c < rules[index]!.counters.length; c++) {
      const row = firstRow + c
      for (let v = charges.valuesFrom[row]!; v < charges.valuesFrom[row + 1]!; v++) rows.addValue(charges.values[v]!)
      rows.add(charges.counters[row]!, 0)
    }
    return this.#store.locatorsOf(rows, { wallMs: results.wallMs, momentMs: results.momentMs, from: results.takenFrom })
  }
}

function isBudget(rule: PlanRule): boolean {
  const unit = countedUnit(rule)
  return unit === 'tokens' || unit === 'money'
}

interface NotedCaller {
  readonly shown: ShownCaller
  readonly locators: readonly CounterLocator[]
  /** The rule as it is in the bundle. */
  readonly rule: PlanRule
  /** Digest by which overrides identify the caller. */
  readonly subject: string
  /** Where the sum of what it has in flight is kept; undefined if that is not tracked. */
  readonly reservedAt: ReservedCells | undefined
  /** The smallest remaining share among the rule's counters. */
  readonly share: number
  readonly notedMs: number
  /** When it was noted, by the clock of the counters. */
  readonly wallMs: number
}

/** The locator of a counter with windows changes with each window. */
function hasWindows({ counters }: PlanRule): boolean {
  return counters.some(({ limit }) => algorithmOf(limit).hasWindows)
}

interface Limits {
  readonly counters: readonly Counter[]
  readonly planCounters: readonly PlanCounter[]
}

/** Returns the limits that apply now, since an override may have begun or ended after the caller was noted. There are none if nothing limits the caller. */
function limitsNow({ rule, subject }: NotedCaller, { counters, overrides }: ActivePlan, nowMs: number): Limits {
  const variant = overrides.index?.of(rule)?.findByDigest(subject, nowMs)
  if (variant !== undefined) return { counters: variant.counters, planCounters: variant.rule.counters }
  return { counters: rule.counters.map(({ index }) => counters[index]!), planCounters: rule.counters }
}

/** Whether no window has ended since the caller was noted. In a new window the counter is full, or the caller is noted again. */
function isInWindow({ planCounters, wallMs: notedMs }: Limits & Pick<NotedCaller, 'wallMs'>, wallMs: number): boolean {
  return planCounters.every(({ limit }) => algorithmOf(limit).windowAt(limit, wallMs) === algorithmOf(limit).windowAt(limit, notedMs))
}

/** Makes one row of cost 0 for each counter of each caller. */
function chargesOf(noted: readonly (Limits & Pick<NotedCaller, 'locators'>)[]): Charges {
  const charges = new Charges()
  for (const { counters } of noted) for (const counter of counters) charges.add(counter, 0)
  charges.locators = noted.flatMap(({ locators }) => locators)
  return charges
}

function nearness({ part: kind, limit, size, unit }: PlanCounter, level: number): Pick<NearCaller, 'kind' | 'period' | 'level' | 'limit'> {
  return { kind, period: limit.kind === WINDOW ? limit.calendar.period : undefined, level: level / unit, limit: size / unit }
}

function shareLeft(counters: readonly PlanCounter[], levels: Float64Array, firstRow: number): number {
  const { level, counter } = scarcest(counters, levels, firstRow)
  return level / counter.size
}

function scarcest(counters: readonly PlanCounter[], levels: Float64Array, firstRow: number): { level: number; counter: PlanCounter } {
  let found = { level: levels[firstRow]!, counter: counters[0]! }
  for (let c = 1; c < counters.length; c++) {
    const [level, counter] = [levels[firstRow + c]!, counters[c]!]
    if (level * found.counter.size < found.level * counter.size) found = { level, counter }
  }
  return found
}

const PERIOD_MS = 100
/** The most callers that are noted in a period. */
const MAX_NOTED = 100
/** Factor by which the bound grows in each period in which few callers were noted. */
const GROWTH = 1.25

/** Bounds the work by choosing counters by their remaining share: when too many callers are noted, only those with smaller shares are. */
class NearGate {
  /** Counters with a smaller remaining share than this are noted. */
  below = 1
  #bound = 1
  #left = MAX_NOTED
  #endMs = Number.NEGATIVE_INFINITY

  /** Begins another period once the current one is over. */
  turnTo(nowMs: number): void {
    if (nowMs < this.#endMs) return
    if (this.#left === 0) this.#bound /= 2
    else if (this.#left > MAX_NOTED / 2) this.#bound = Math.min(1, this.#bound * GROWTH ** ((nowMs - this.#endMs) / PERIOD_MS + 1))
    this.below = this.#bound
    this.#left = MAX_NOTED
    this.#endMs = nowMs + PERIOD_MS
  }

  /** Counts a caller that is noted; the last one of the period closes the gate. */
  count(): void {
    if (--this.#left === 0) this.below = Number.NEGATIVE_INFINITY
  }
}
