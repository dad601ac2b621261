import { SLICES } from '../../limiter/algorithms/in-flight.ts'
import { calendarOf, DAY_MS } from '../../limiter/calendar.ts'
import { BUCKET, IN_FLIGHT, type Limit, WINDOW } from '../../limiter/limit.ts'
import { dateTimeMs } from '../../text/formats.ts'
import { printableText, quoted } from '../../text/printable.ts'
import { formatPath, type Problem } from '../../text/problem.ts'
import type { NamedLimit } from '../compile.ts'
import { KEY_KINDS, parseDescriptorKey } from '../descriptor-key.ts'
import type { Bundle } from '../schema/bundle.ts'

/** How many requests one client can easily send in a second, each with a made-up value of its own. */
const MADE_UP_PER_SECOND = 1000
const MAX_WARNINGS = 10
/** Any time will do, because all windows of a period have about the same length. */
const SOME_MS = Date.UTC(2026, 0, 15)

interface CountedRule {
  readonly policy: string
  readonly rule: string
  readonly algorithm: string
  readonly keys: readonly string[]
  readonly limit: Limit
}

/**
 * Warns about rules with a key that a caller can make up without changing its budget under another rule, fast enough that the counters fill
 * half of a table of `slots`.
 */
export function madeUpKeyWarnings(limits: readonly NamedLimit[], slots: number): string[] {
  const rules = limits.map(countedRule)
  // A rule without keys has a single counter, which is always within its rule's share of the table.
  const budgets = rules.filter(({ limit, keys }) => keys.length > 0 && limit.kind === WINDOW && lastsMs(limit) >= DAY_MS)
  const budgetsBy = new Map<string, number>()
  for (const { keys } of budgets) for (const key of keys) budgetsBy.set(key, (budgetsBy.get(key) ?? 0) + 1)
  const warnings: string[] = []
  for (const each of rules) {
    const counters = (lastsMs(each.limit, each.algorithm) / 1000) * MADE_UP_PER_SECOND
    const key = each.keys.find((text) => isChosen(text) && (budgetsBy.get(text) ?? 0) < budgets.length)
    if (key === undefined || counters <= slots / 2) continue
    const budget = budgets.find(({ keys }) => !keys.includes(key))!
    warnings.push(
      `${nameOf(each)}: clients that send ${numberText(MADE_UP_PER_SECOND)} made-up values of ${printableText(key)} a second can fill half of the table of ${numberText(slots)} counters (EDGE_STORE_SIZE), which also holds the budgets of ${nameOf(budget)}: let the gateway check the value, or make the table larger`,
    )
    if (warnings.length === MAX_WARNINGS) break
  }
  return warnings
}

/** Reads the identity that `compile` gives a counter: policy, rule, mode, algorithm, limit keys, and what the algorithm adds. */
function countedRule({ name, limit }: NamedLimit): CountedRule {
  const [policy, rule, , algorithm, ...rest] = JSON.parse(name) as [string, string, string, string, ...string[]]
  return { policy, rule, algorithm, keys: rest.filter((text) => parseDescriptorKey(text) !== undefined), limit }
}

/** Whether clients choose its values, unless a gateway checks or sets them. */
function isChosen(key: string): boolean {
  const { source } = KEY_KINDS[parseDescriptorKey(key)!.kind]
  return source === 'client' || source === 'target'
}

/** Returns how long the record of one request is kept at most: it takes one token of a `token_bucket`, and at most all of any other bucket. */
function lastsMs(limit: Limit, algorithm?: string): number {
  if (limit.kind === BUCKET) return (algorithm === 'token_bucket' ? 1 : limit.burst) / limit.tokensPerMs
  if (limit.kind === IN_FLIGHT) return limit.sliceMs * SLICES
  // A large bundle is read on another thread, from which a calendar comes without its methods.
  const { period, zone, anchor } = limit.calendar
  const { startMs, endMs } = calendarOf(period, zone, anchor).windowAt(SOME_MS)
  return endMs - startMs
}

function nameOf({ policy, rule }: CountedRule): string {
  return `policy ${quoted(policy)}, rule ${quoted(rule)}`
}

function numberText(value: number): string {
  return value.toLocaleString('en-US')
}

/** A rule that counts requests in flight. */
export interface HeldRule {
  readonly policy: string
  readonly rule: string
  readonly holdSeconds: number
}

/** Finds the rules of a bundle that count requests in flight, given the limits of its counters. */
export function heldRules(limits: readonly NamedLimit[]): HeldRule[] {
  return limits.flatMap(({ name, limit }) => {
    if (limit.kind !== IN_FLIGHT) return []
    const [policy, rule] = JSON.parse(name) as [string, string]
    return [{ policy, rule, holdSeconds: (limit.sliceMs * SLICES) / 1000 }]
  })
}

/** Says how long a request counts if nobody reports its end. */
export function heldRuleNote({ policy, rule, holdSeconds }: HeldRule): string {
  const seconds = holdSeconds === 1 ? '1 second' : `${holdSeconds} seconds`
  return `policy ${JSON.stringify(policy)}, rule ${JSON.stringify(rule)}: in decision_service each request counts as in flight for ${seconds} (hold_seconds), unless its end is reported to /v1/settle`
}

/** Says of each rule with `reserve` that it has no effect where no responses are seen. */
export function* reserveNotes(policies: Iterable<Bundle['policies'][number]>): Generator<string> {
  for (const { id, spec } of policies) {
    for (const { name, algorithm_config: config } of spec.rules) {
      if (config === undefined || !('reserve' in config) || config.reserve === undefined) continue
      yield `policy ${JSON.stringify(id)}, rule ${JSON.stringify(name)}: in decision_service reserve has no effect, because no stream passes through edge: each request reserves its longest completion`
    }
  }
}

/** Says of each rule with `wait_seconds` that it has no effect where gateways ask. */
export function* waitNotes(policies: Iterable<Bundle['policies'][number]>): Generator<string> {
  for (const { id, spec } of policies) {
    for (const { name, wait_seconds: seconds } of spec.rules) {
      if (seconds === undefined) continue
      yield `policy ${JSON.stringify(id)}, rule ${JSON.stringify(name)}: in decision_service wait_seconds has no effect, because gateways are answered at once`
    }
  }
}

/** A block that expires. */
export interface BlockExpiry {
  readonly policy: string
  readonly rule: string
  /** Path of `expires_at` in the bundle. */
  readonly path: string
  /** The time as written in the bundle. */
  readonly expiresAt: string
  readonly expiresAtMs: number
}

export function blockExpiriesOf({ policies }: Bundle): BlockExpiry[] {
  return policies.flatMap(({ id, spec }, p) =>
    spec.rules.flatMap((rule, r) => {
      const expiresAt = rule.algorithm === 'block' ? rule.algorithm_config.expires_at : undefined
      if (expiresAt === undefined) return []
      const path = formatPath(['policies', p, 'spec', 'rules', r, 'algorithm_config', 'expires_at'])
      return [{ policy: id, rule: rule.name, path, expiresAt, expiresAtMs: dateTimeMs(expiresAt) }]
    }),
  )
}

/** Returns the blocks that have expired by now, as warnings of `edge validate` and `edge sign`. */
export function expiredBlocks(expiries: readonly BlockExpiry[], wallMs: number): Problem[] {
  return expiries
    .filter(({ expiresAtMs }) => expiresAtMs <= wallMs)
    .map(({ path, expiresAt }) => ({ path, message: `the block expired at ${expiresAt} and blocks nobody: remove it` }))
}
