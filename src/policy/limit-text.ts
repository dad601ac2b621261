import { RATE } from './algorithms/rate.ts'
import { statedAnchor, type WindowConfig } from './anchor.ts'
import { type CountedUnit, countedUnit } from './counted-unit.ts'
import type { Rule } from './schema/bundle.ts'

/** Describes each limit of a rule in the order of its counters, such as `60 requests per minute, burst 100`. */
export function limitTexts(rule: Rule): readonly string[] {
  const unit = countedUnit({ source: rule })
  switch (rule.algorithm) {
    case 'token_bucket':
      return [bucketText(rule.algorithm_config, unit)]
    case 'fixed_window': {
      const { limit } = rule.algorithm_config
      return [`${amountText(limit, unit)} per ${periodText(rule.algorithm_config)}`]
    }
    case 'token_bucket_llm': {
      const { tokens_per_minute: perMinute, tokens_per_day: perDay, burst_tokens: burst } = rule.algorithm_config
      const minute = perMinute === undefined ? [] : [`${amountText(perMinute, unit)} per minute${burstText(burst, perMinute)}`]
      return perDay === undefined ? minute : [...minute, `${amountText(perDay, unit)} per day`]
    }
    case 'cost_budget': {
      const { budget } = rule.algorithm_config
      return [`${amountText(budget, unit)} per ${periodText(rule.algorithm_config)}`]
    }
    case 'concurrency': {
      const { max_in_flight: count } = rule.algorithm_config
      return [`${amountText(count, unit)} in flight`]
    }
    case 'unlimited':
    case 'block':
      return []
  }
}

type BucketConfig = Extract<Rule, { algorithm: 'token_bucket' }>['algorithm_config']

function bucketText({ rate, tokens_per_second, burst }: BucketConfig, unit: CountedUnit): string {
  const [, count, period] = RATE.exec(rate ?? '') ?? []
  if (count !== undefined) return `${amountText(Number(count), unit)} per ${period}${burstText(burst, Number(count))}`
  const [own, seconds] = PERIODS.find(([, size]) => tokens_per_second! * size >= 1) ?? PERIODS.at(-1)!
  return `${amountText(tokens_per_second! * seconds, unit)} per ${own}${burstText(burst, undefined)}`
}

const PERIODS = [
  ['second', 1],
  ['minute', 60],
  ['hour', 3600],
  ['day', 86_400],
] as const

/** Leaves out a burst that follows from the rate. */
function burstText(burst: number | undefined, usual: number | undefined): string {
  return burst === undefined || burst === usual ? '' : `, burst ${numberText(burst)}`
}

const PERIOD_NAMES: Readonly<Record<string, string>> = {
  '1m': 'minute',
  '1h': 'hour',
  '1d': 'day',
  '1w': 'week',
  '1mo': 'month',
  '3mo': 'quarter',
  '1y': 'year',
}

function periodText(config: WindowConfig): string {
  const { period, timezone } = config
  const name = PERIOD_NAMES[period] ?? period.replace(/m$/, ' minutes').replace(/h$/, ' hours')
  const anchor = statedAnchor(config)
  const from =
    anchor === undefined ? [] : [typeof anchor === 'number' ? `from day ${anchor}` : `from ${anchor[0]!.toUpperCase()}${anchor.slice(1)}`]
  const details = [...from, ...(timezone === 'UTC' ? [] : [timezone])]
  return details.length === 0 ? name : `${name} (${details.join(', ')})`
}

/** One and several of each unit. Bundles do not name their currency. */
const UNIT_NAMES: Readonly<Record<CountedUnit, readonly [one: string, many: string]>> = {
  requests: ['request', 'requests'],
  tokens: ['token', 'tokens'],
  money: ['currency unit', 'currency units'],
  units: ['unit', 'units'],
}

function amountText(value: number, unit: CountedUnit): string {
  const [one, many] = UNIT_NAMES[unit]
  return `${unit === 'money' ? moneyText(value) : numberText(value)} ${value === 1 ? one : many}`
}

function numberText(value: number): string {
  return value.toLocaleString('en-US', { maximumSignificantDigits: 15 })
}

function moneyText(value: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 6 })
}
