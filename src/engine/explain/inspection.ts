import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import type { Override } from '../../overrides/override.ts'
import type { PlanCounter } from '../../policy/algorithms/compiled-rule.ts'
import { isCredential, parseDescriptorKey } from '../../policy/descriptor-key.ts'
import type { PlanRule } from '../../policy/plan.ts'
import { countedForm } from '../../policy/rule-match.ts'
import { ChargeResults, Charges } from '../../store/charges.ts'
import type { CounterStore, Outcome } from '../../store/counter-store.ts'
import type { ActivePlan } from '../active-plan.ts'
import { shownLevel } from '../conclusion.ts'
import type { CallerDigest } from '../decide-options.ts'
import { isAwaited, type OpenReservations } from '../open-reservations.ts'
import type { Variant } from '../overrides/rule-overrides.ts'

/** Identifies the counters of one rule for one caller. */
export interface CounterName {
  readonly policy: string
  readonly rule: string
  /** One string for each of the rule's limit_keys, and nothing else. */
  readonly values: Readonly<Record<string, string>>
}

/** The state of the counters, or why it is not known. */
export type Inspection =
  | {
      readonly ok: true
      readonly rule: PlanRule
      /** In the order of its limit keys, as the counters have them. */
      readonly values: readonly string[]
      readonly counters: readonly CounterStatus[]
      /** The override in force for this caller. */
      readonly override: Override | undefined
    }
  | { readonly ok: false; readonly error: InspectionError }

export type InspectionError = 'unknown_policy' | 'unknown_rule' | 'wrong_values' | 'store_unavailable'

/** A rule's counters for one caller. */
export interface FoundCounters {
  readonly rule: PlanRule
  readonly values: readonly string[]
  /** One row of cost 0 for each of the rule's counters. */
  readonly charges: Charges
  readonly variant: Variant | undefined
}

/** Finds the counters under the limits in force at `nowMs`. */
export function findCounters(active: ActivePlan | undefined, name: CounterName, nowMs: number): FoundCounters | InspectionError {
  const policy = active?.plan.policiesById.get(name.policy)
  if (policy === undefined) return 'unknown_policy'
  const rule = policy.rules.find((each) => each.name === name.rule)
  if (rule === undefined) return 'unknown_rule'
  const values = subjectOf(rule, name.values)
  if (values === undefined) return 'wrong_values'
  const variant = active!.overrides.index?.of(rule)?.find(values, nowMs)
  const charges = new Charges()
  for (const [c, counter] of rule.counters.entries()) {
    for (const value of values) charges.addValue(value)
    charges.add(variant?.counters[c] ?? active!.counters[counter.index]!, 0)
  }
  return { rule, values, charges, variant }
}

/** Reads the counters without taking anything. */
export function inspectCounters(
  { rule, values, charges, variant }: FoundCounters,
  store: CounterStore,
  nowMs: number,
  wallMs: number,
  open: OpenReservations | undefined,
): Inspection | Promise<Inspection> {
  const results = new ChargeResults()
  const report = (outcome: Outcome): Inspection => {
    // A store that lets everything pass while it is unreachable takes nothing and does not know what is left.
    if (outcome === 'unavailable' || results.takenFrom === 'none') return { ok: false, error: 'store_unavailable' }
    const counters = rule.counters.map((bundled, row) => {
      const counter = variant?.rule.counters[row] ?? bundled
      const reserved = open && isAwaited(counter) ? open.sumOf(counter, values, 0, values.length, results.wallMs) : undefined
      return statusOf(counter, results.levels[row]!, results.wallMs, reserved)
    })
    return { ok: true, rule, values, counters, override: variant?.override }
  }
  if (charges.length === 0) return report(true)
  const outcome = store.checkAll(charges, results, nowMs, wallMs, 'operator')
  return outcome instanceof Promise ? outcome.then(report) : report(outcome)
}

/** Returns the values in the order of the rule's keys; undefined if one is missing, empty, not a string, unknown, or not a valid address. */
function subjectOf({ limitKeys }: PlanRule, values: CounterName['values']): string[] | undefined {
  const given = new Map<string, string>()
  for (const [text, value] of Object.entries(values ?? {})) {
    const key = parseDescriptorKey(text)?.text ?? text
    if (typeof value !== 'string' || (value === '' && !key.startsWith('descriptor:')) || given.has(key) || !limitKeys.includes(key))
      return undefined
    const subject = countedForm(key, value)
    if (subject === undefined) return undefined
    given.set(key, subject)
  }
  return limitKeys.every((key) => given.has(key)) ? limitKeys.map((key) => given.get(key)!) : undefined
}

/** The state of one counter of a rule for one caller, in tokens or, for a budget, in hundredths of a currency unit. */
export interface CounterStatus {
  readonly kind: PlanCounter['part']
  /** The most that it can ever hold. */
  readonly limit: number
  /** Remaining amount, with fractions. It is negative if settlements left a debt. */
  readonly level: number
  /** Remaining amount, rounded down and never negative. */
  readonly remaining: number
  /** Time until it is full again. */
  readonly resetMs: number
  /** What requests in flight in this process have reserved of the amount that is taken; undefined if that is not tracked. */
  readonly reserved?: number | undefined
}

/** `reserved` is in the units of the counter. */
export function statusOf(counter: PlanCounter, level: number, wallMs: number, reserved?: number): CounterStatus {
  const { part, size, limit, unit } = counter
  return {
    kind: part,
    limit: size / unit,
    level: level / unit,
    remaining: shownLevel(level, counter),
    resetMs: algorithmOf(limit).resetMs(limit, level, wallMs),
    ...(reserved !== undefined && { reserved: reserved / unit }),
  }
}

/** Returns a caller's values by limit key, as operators may see them: credentials are digests. */
export function shownValues(
  { limitKeys }: Pick<PlanRule, 'limitKeys'>,
  values: readonly string[],
  callerDigest: CallerDigest,
): Record<string, string> {
  return Object.fromEntries(limitKeys.map((key, i) => [key, isCredential(key) ? callerDigest([values[i]!]) : values[i]!]))
}
