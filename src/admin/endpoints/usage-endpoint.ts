import type { CounterName, Inspection } from '../../engine/explain/inspection.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import { readCount, readQuery } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type { InFlightAmounts, SpendingRule, UsageJson, UsedAmounts } from '../api/instance-types.ts'
import type { CounterJson } from '../api/types.ts'
import { counterJson } from './counters-endpoints.ts'

const DEFAULT_LIMIT = 20
const MAX_LIMIT = 100

export interface UsageParts {
  readonly plan: () => Plan | undefined
  /** Whether responses pass through this instance, so that their usage is known. */
  readonly isCounted: boolean
  /** Reports the usage of these rules, and of the rules that used most. */
  readonly usage: (rules: readonly UsageRuleName[]) => Promise<UsageReport>
  readonly inspect: (name: CounterName) => Inspection | Promise<Inspection>
}

/** GET usage: rules that count tokens or money, what they have counted, and what is left if all callers share a rule's counters. */
export function usageEndpoint({ plan, isCounted, usage, inspect }: UsageParts): ApiRoute {
  const spendingRules = new SpendingRules()
  return {
    method: 'GET',
    path: 'usage',
    handle: async ({ query }) => {
      const limit = readCount('limit', readQuery(query, ['limit']).limit, DEFAULT_LIMIT, MAX_LIMIT)
      const active = plan()
      const rules = spendingRules.of(active)
      const report = await usage(rules.slice(0, limit).map(nameOf))
      const shown = mostFirst(active, report).slice(0, limit)
      const counters = await Promise.all(shown.map(({ rule }) => countersOf(rule, inspect)))
      const json: UsageJson = {
        since: report.since,
        total: rules.length,
        rules: shown.map(({ rule, used, in_flight }, i) => ({
          ...ruleJson(rule),
          used: isCounted ? used : null,
          in_flight: isCounted ? in_flight : null,
          counters: counters[i]!,
        })),
      }
      return { status: 200, json }
    },
  }
}

/**
 * Finds the rules of a plan only once, because a page asks every few seconds and a bundle may have a hundred thousand rules. The weak map keeps no
 * plan in memory.
 */
class SpendingRules {
  readonly #rules = new WeakMap<Plan, readonly PlanRule[]>()

  of(plan: Plan | undefined): readonly PlanRule[] {
    if (plan === undefined) return []
    let rules = this.#rules.get(plan)
    if (rules === undefined) {
      rules = plan.policies.flatMap((policy) => policy.rules.filter(isSpending))
      this.#rules.set(plan, rules)
    }
    return rules
  }
}

function isSpending({ source: { algorithm } }: PlanRule): boolean {
  return algorithm === 'token_bucket_llm' || algorithm === 'cost_budget'
}

function nameOf({ policy, name, source }: PlanRule): UsageRuleName {
  return { policy: policy.id, rule: name, unit: source.algorithm === 'cost_budget' ? 'money' : 'tokens' }
}

/** Returns rules of the plan: first those that used most, then those that were asked about. */
function mostFirst(plan: Plan | undefined, { most, asked }: UsageReport): (RuleAmounts & { readonly rule: PlanRule })[] {
  const found = new Map<PlanRule, RuleAmounts>()
  for (const { used, in_flight, ...name } of [...most, ...asked]) {
    const rule = ruleOf(plan, name)
    if (rule !== undefined && !found.has(rule)) found.set(rule, { used, in_flight })
  }
  return Array.from(found, ([rule, amounts]) => ({ rule, ...amounts }))
}

/** Returns undefined if only an earlier bundle had the rule. */
function ruleOf(plan: Plan | undefined, { policy, rule: name, unit }: UsageRuleName): PlanRule | undefined {
  return plan?.policiesById.get(policy)?.rules.find((rule) => rule.name === name && isSpending(rule) && nameOf(rule).unit === unit)
}

/** Returns null if each caller has its own counters, or if Redis is unreachable. */
async function countersOf({ policy, name, limitKeys }: PlanRule, inspect: UsageParts['inspect']): Promise<CounterJson[] | null> {
  if (limitKeys.length > 0) return null
  const inspection = await inspect({ policy: policy.id, rule: name, values: {} })
  return inspection.ok ? inspection.counters.map(counterJson) : null
}

function ruleJson(rule: PlanRule): Omit<SpendingRule, 'used' | 'in_flight' | 'counters'> {
  const { limit_keys, algorithm, algorithm_config } = rule.source
  return { ...nameOf(rule), mode: rule.policy.mode, limit_keys, algorithm, algorithm_config }
}

/** A rule that counts tokens or money. If it counted the other unit in an earlier bundle, that was a different rule. */
export type UsageRuleName = Pick<SpendingRule, 'policy' | 'rule' | 'unit'>

interface RuleAmounts {
  readonly used: UsedAmounts
  readonly in_flight: InFlightAmounts
}

export interface RuleUsage extends UsageRuleName, RuleAmounts {}

/** Usage according to the metrics of all threads. */
export interface UsageReport {
  /** When counting began. */
  readonly since: string
  /** Usage of the rules that were asked about, in the given order. */
  readonly asked: readonly RuleUsage[]
  /** The rules that used most in recent time or have most in flight, alternating between those that count tokens and those that count money. */
  readonly most: readonly RuleUsage[]
}
