import type { ChargedRule } from '../telemetry/metrics/usage-log-metrics.ts'

/** A line of the usage log, as far as reports read it. */
export interface ReadUsageLine {
  readonly time: string
  readonly labels?: Readonly<Record<string, string>>
  readonly tokens?: ReadTokens
  readonly rules: readonly ReadRule[]
  readonly [member: string]: unknown
}

interface ReadTokens {
  readonly input?: number
  readonly cached_input?: number
  readonly output?: number
}

export interface ReadRule {
  readonly policy: string
  readonly rule: string
  readonly mode?: string
  readonly tokens?: number
  readonly cost_nanos?: number
}

/** Returns undefined if the text is not a whole line of the usage log, such as the last one of a process that was killed. */
export function readUsageLine(text: string): ReadUsageLine | undefined {
  let line: unknown
  try {
    line = JSON.parse(text)
  } catch {
    return undefined
  }
  return isObject(line) && isUsageLine(line as Partial<ReadUsageLine>) ? (line as ReadUsageLine) : undefined
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

/** Reports cut hours and days out of it, so it must be in UTC. */
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z$/

function isUsageLine({ time, labels = {}, tokens = {}, rules }: Partial<ReadUsageLine>): boolean {
  if (!isTime(time) || !isObject(labels) || !isObject(tokens) || !Array.isArray(rules)) return false
  const { input, cached_input: cached, output } = tokens
  return isAmount(input) && isAmount(cached) && isAmount(output) && rules.every(isRule)
}

function isTime(value: unknown): boolean {
  return typeof value === 'string' && TIME.test(value) && !Number.isNaN(Date.parse(value))
}

function isRule(value: unknown): boolean {
  if (!isObject(value)) return false
  const { policy, rule, tokens, cost_nanos: nanos } = value as Partial<ReadRule>
  return typeof policy === 'string' && typeof rule === 'string' && isAmount(tokens) && isAmount(nanos)
}

/** Sums are exact, so each part must be. */
function isAmount(value: unknown): boolean {
  return value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0)
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
