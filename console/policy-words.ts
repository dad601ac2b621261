import type { CounterUnit, PatternsJson, RuleJson, SelectorJson } from '../src/admin/api/types.ts'
import { amountText, perText } from './amounts.ts'
import { formatCount, formatDateTime, formatNumber } from './format.ts'

/** Number of list items that are named; more would hide what follows the list. */
const NAMED = 3

/** Describes what a policy covers, such as `GET, POST below /api on a.example.com`. */
export function selectorWords({ pathPrefix, pathExact, exceptPaths, methods, hosts, domain, descriptors }: SelectorJson): string {
  if (domain !== undefined) return `gRPC domain ${domain}${descriptors === undefined ? '' : `, ${patternWords(descriptors)}`}`
  const path = pathExact ?? (pathPrefix === undefined || pathPrefix === '/' ? 'every path' : `below ${pathPrefix}`)
  const covered = [methods && listWords(methods), path, hosts && `on ${listWords(hosts, ' or ')}`].filter(Boolean).join(' ')
  return exceptPaths === undefined ? covered : `${covered}, except ${listWords(exceptPaths)}`
}

/** Describes what a rule allows and how it tells callers apart, such as `10 requests per minute, burst 20, per header:x-key`. */
export function ruleWords(rule: Omit<RuleJson, 'name' | 'last_minute'>): string {
  const limit = limitWords(rule)
  const keys = rule.algorithm === 'block' || rule.algorithm === 'unlimited' ? [] : [keysWords(rule.limit_keys)]
  const waits = given(rule.wait_seconds, (seconds) => `requests wait up to ${number(seconds)} s`)
  return [...limit, ...keys, ...matchWords(rule.match), ...waits].join(', ')
}

function keysWords(keys: readonly string[]): string {
  return keys.length === 0 ? 'for everybody together' : `per ${keys.join(' and ')}`
}

function matchWords(match: RuleJson['match']): string[] {
  if (match === undefined) return []
  return [match === 'else' ? 'where no other rule of the policy matches' : `only where ${patternWords(match)}`]
}

function patternWords(patterns: PatternsJson): string {
  return Object.entries(patterns)
    .map(([key, values]) => `${key} is ${typeof values === 'string' ? valueWords(values) : listWords(values.map(valueWords), ' or ')}`)
    .join(' and ')
}

function valueWords(pattern: string): string {
  return pattern === '*' ? 'present' : pattern
}

function limitWords({ algorithm, algorithm_config: config }: Pick<RuleJson, 'algorithm' | 'algorithm_config'>): string[] {
  switch (algorithm) {
    case 'token_bucket':
      return [rateWords(config), ...given(config['burst'], (burst) => `burst ${number(burst)}`), ...costWords(config)]
    case 'fixed_window':
      return [perText(Number(config['limit']), unitOfCost(config), periodWords(config)), ...costWords(config)]
    case 'token_bucket_llm':
      return [
        ...given(config['tokens_per_minute'], (count) => perText(Number(count), 'tokens', 'minute')),
        ...given(config['burst_tokens'], (count) => `burst ${amountText(Number(count), 'tokens')}`),
        ...given(config['tokens_per_day'], (count) => perText(Number(count), 'tokens', 'day')),
        ...given(config['max_completion_tokens'], (count) => `completions up to ${amountText(Number(count), 'tokens')}`),
        ...given(config['count'], weightWords),
        ...given(config['reserve'], reserveWords),
        ...given(config['warn_at_percent'], warningWords),
      ]
    case 'cost_budget':
      return [
        perText(Number(config['budget']), 'money', periodWords(config)),
        ...given(config['prices'], (table) => `prices ${String(table)}`),
        ...given(config['reserve'], reserveWords),
        ...given(config['warn_at_percent'], warningWords),
      ]
    case 'concurrency':
      return [`${formatCount(Number(config['max_in_flight']), 'request')} in flight`]
    case 'unlimited':
      return ['no limit']
    case 'block':
      return ['blocked', ...given(config['expires_at'], (time) => `until ${formatDateTime(String(time))}`)]
    default:
      return [`${algorithm} ${JSON.stringify(config)}`]
  }
}

/** The weights of a rule, in the order of the bundle, and their names. */
const WEIGHTS = [
  ['input', 'input'],
  ['cached_input', 'cached input'],
  ['cache_write', 'cache writes'],
  ['output', 'output'],
] as const

/** Names the weights other than 1, such as `cached input counts 0.1 times`. */
function weightWords(count: unknown): string {
  const weights = count as Readonly<Record<string, number | undefined>>
  const words = WEIGHTS.flatMap(([field, name]) =>
    given(weights[field] === 1 ? undefined : weights[field], (weight) => timesWords(name, Number(weight))),
  )
  return words.length === 0 ? 'every token counts once' : words.join(', ')
}

function timesWords(name: string, weight: number): string {
  const verb = name.endsWith('s') ? 'count' : 'counts'
  return weight === 0 ? `${name} ${verb} nothing` : `${name} ${verb} ${formatNumber(weight)} times`
}

/** Says how the reservation of a stream grows. The bundle as it is active has both numbers. */
function reserveWords(reserve: unknown): string {
  const { first = 2000, step = 1000 } = reserve as { first?: number; step?: number }
  return `streams reserve ${amountText(first, 'tokens')} at first and ${formatNumber(step)} at a time`
}

function rateWords(config: RuleJson['algorithm_config']): string {
  const [, count, period] = /^([\d.]+)\/(\w+)$/.exec(String(config['rate'])) ?? []
  if (count !== undefined) return perText(Number(count), unitOfCost(config), period!)
  return perPeriod(Number(config['tokens_per_second']), unitOfCost(config))
}

/** Returns what a rule without tokens or money counts: requests, unless a request can take more or less than 1. */
export function unitOfCost({ cost = 1 }: RuleJson['algorithm_config']): CounterUnit {
  return cost === 1 ? 'requests' : 'units'
}

/** Chooses the shortest period with at least 1: 0.5 per second becomes 30 per minute. */
function perPeriod(perSecond: number, unit: CounterUnit): string {
  const periods = [
    ['second', 1],
    ['minute', 60],
    ['hour', 3600],
  ] as const
  const [period, seconds] = periods.find(([, size]) => perSecond * size >= 1) ?? (['day', 86_400] as const)
  return perText(perSecond * seconds, unit, period)
}

const PERIODS: Readonly<Record<string, string>> = {
  '1m': 'minute',
  '1h': 'hour',
  '1d': 'day',
  '1w': 'week',
  '1mo': 'month',
  '3mo': 'quarter',
  '1y': 'year',
}

/** Names the length of windows, such as `month`, `15 minutes (Europe/Berlin)` or `week (from Sunday)`. */
export function periodWords({ period, timezone, anchor }: RuleJson['algorithm_config']): string {
  const text = String(period)
  const words = PERIODS[text] ?? text.replace(/m$/, ' minutes').replace(/h$/, ' hours')
  const zone = timezone === 'UTC' || timezone === undefined ? [] : [String(timezone)]
  const details = [...anchorWords(anchor), ...zone]
  return details.length === 0 ? words : `${words} (${details.join(', ')})`
}

/** Weeks begin on Monday and months on their first day, which need not be said. */
function anchorWords(anchor: unknown): string[] {
  if (anchor === undefined || anchor === 'monday' || anchor === 1) return []
  const text = String(anchor)
  return [typeof anchor === 'number' ? `from day ${text}` : `from ${text[0]?.toUpperCase()}${text.slice(1)}`]
}

function costWords({ cost, when_over }: RuleJson['algorithm_config']): string[] {
  const words = given(cost, (what) =>
    typeof what === 'number' ? `each request takes ${number(what)}` : `cost in ${(what as { header: string }).header}`,
  )
  return when_over === 'charge' ? [...words, 'may go into debt'] : words
}

function given(value: unknown, words: (value: unknown) => string): string[] {
  return value === undefined ? [] : [words(value)]
}

function number(value: unknown): string {
  return formatNumber(Number(value))
}

function warningWords(percents: unknown): string {
  return `warns at ${listWords(percents as readonly number[])} %`
}

function listWords(items: readonly (string | number)[], joint = ', '): string {
  const rest = items.length - NAMED
  return items.slice(0, NAMED).join(joint) + (rest > 0 ? ` and ${formatNumber(rest)} more` : '')
}
