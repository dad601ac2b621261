import type { PatternsJson, RuleJson, SelectorJson } from '../src/admin/api/types.ts'
import { formatCount, formatDateTime, formatMoney, formatNumber } from './format.ts'

/** Number of list items that are named; more would hide what follows the list. */
const NAMED = 3

/** Describes what a policy covers, such as `GET, POST below /api on a.example.com`. */
export function selectorWords({ pathPrefix, pathExact, exceptPaths, methods, hosts, domain, descriptors }: SelectorJson): string {
  if (domain !== undefined) return `gRPC domain ${domain}${descriptors === undefined ? '' : `, ${patternWords(descriptors)}`}`
  const path = pathExact ?? (pathPrefix === undefined || pathPrefix === '/' ? 'every path' : `below ${pathPrefix}`)
  const covered = [methods && listWords(methods), path, hosts && `on ${listWords(hosts, ' or ')}`].filter(Boolean).join(' ')
  return exceptPaths === undefined ? covered : `${covered}, except ${listWords(exceptPaths)}`
}

/** Describes what a rule allows and how it tells callers apart, such as `10 per minute, burst 20, per header:x-key`. */
export function ruleWords(rule: Omit<RuleJson, 'name' | 'last_minute'>): string {
  const limit = limitWords(rule)
  const keys = rule.algorithm === 'block' || rule.algorithm === 'unlimited' ? [] : [keysWords(rule.limit_keys)]
  return [...limit, ...keys, ...matchWords(rule.match)].join(', ')
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
    .map(([key, values]) => `${key} is ${typeof values === 'string' ? values : listWords(values, ' or ')}`)
    .join(' and ')
}

function limitWords({ algorithm, algorithm_config: config }: Pick<RuleJson, 'algorithm' | 'algorithm_config'>): string[] {
  switch (algorithm) {
    case 'token_bucket':
      return [rateWords(config), ...given(config['burst'], (burst) => `burst ${number(burst)}`), ...costWords(config)]
    case 'fixed_window':
      return [`${number(config['limit'])} ${periodWords(config)}`, ...costWords(config)]
    case 'token_bucket_llm':
      return [
        ...given(config['tokens_per_minute'], (count) => `${number(count)} tokens per minute`),
        ...given(config['burst_tokens'], (count) => `burst ${number(count)}`),
        ...given(config['tokens_per_day'], (count) => `${number(count)} tokens per day`),
        ...given(config['max_completion_tokens'], (count) => `completions up to ${number(count)}`),
      ]
    case 'cost_budget':
      return [
        `${formatMoney(Number(config['budget']))} ${periodWords(config)}`,
        ...given(config['prices'], (table) => `prices ${String(table)}`),
        ...given(config['warn_at_percent'], (list) => `warns at ${listWords(list as readonly number[])} %`),
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

function rateWords({ rate, tokens_per_second }: RuleJson['algorithm_config']): string {
  const [, count, unit] = /^([\d.]+)\/(\w+)$/.exec(String(rate)) ?? []
  if (count !== undefined) return `${number(count)} per ${unit}`
  return perUnit(Number(tokens_per_second))
}

/** Chooses the smallest unit with at least 1: 0.5 per second becomes 30 per minute. */
function perUnit(perSecond: number): string {
  const units = [
    ['second', 1],
    ['minute', 60],
    ['hour', 3600],
  ] as const
  const [unit, seconds] = units.find(([, size]) => perSecond * size >= 1) ?? (['day', 86_400] as const)
  return `${formatNumber(perSecond * seconds)} per ${unit}`
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

function periodWords({ period, timezone }: RuleJson['algorithm_config']): string {
  const text = String(period)
  const words = PERIODS[text] ?? text.replace(/m$/, ' minutes').replace(/h$/, ' hours')
  return `per ${words}${timezone === 'UTC' || timezone === undefined ? '' : ` (${String(timezone)})`}`
}

function costWords({ cost, when_over }: RuleJson['algorithm_config']): string[] {
  const words = given(cost, (what) =>
    typeof what === 'number' ? `each takes ${number(what)}` : `cost in ${(what as { header: string }).header}`,
  )
  return when_over === 'charge' ? [...words, 'may go into debt'] : words
}

function given(value: unknown, words: (value: unknown) => string): string[] {
  return value === undefined ? [] : [words(value)]
}

function number(value: unknown): string {
  return formatNumber(Number(value))
}

function listWords(items: readonly (string | number)[], joint = ', '): string {
  const rest = items.length - NAMED
  return items.slice(0, NAMED).join(joint) + (rest > 0 ? ` and ${formatNumber(rest)} more` : '')
}
