import type { ChargedRule } from '../telemetry/metrics/usage-log-metrics.ts'

/** A line of the usage log, as far as reports read it. */
export interface ReadUsageLine {
  readonly time: string
  readonly labels: Readonly<Record<string, string>>
  readonly tokens?: Readonly<Record<string, number>> | undefined
  readonly rules: readonly ReadRule[]
  readonly [member: string]: unknown
}

interface ReadRule {
  readonly policy: string
  readonly rule: string
  readonly mode?: string | undefined
  readonly tokens?: number | undefined
  readonly cost_nanos?: number | undefined
}

/** Returns undefined if the text is not a whole line of the usage log, such as the last one of a process that was killed. */
export function readUsageLine(text: string): ReadUsageLine | undefined {
  let line: unknown
  try {
    line = JSON.parse(text)
  } catch {
    return undefined
  }
  const { time, rules } = (line ?? {}) as Partial<ReadUsageLine>
  return typeof time === 'string' && Array.isArray(rules) ? (line as ReadUsageLine) : undefined
}

/** Returns what each rule was charged in a line. */
export function chargedRulesIn(text: string): ChargedRule[] {
  return (readUsageLine(text)?.rules ?? []).map(({ policy, rule, tokens, cost_nanos: nanos }) => ({
    policy,
    rule,
    amount: nanos ?? tokens ?? 0,
    isMoney: nanos !== undefined,
  }))
}
