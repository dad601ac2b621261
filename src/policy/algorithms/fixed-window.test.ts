import { describe, expect, test, vi } from 'vitest'
import { windowRule } from '../../../test/support/bundles/bundles.ts'
import { compiledRule, problemsOf } from '../../../test/support/bundles/compiled-rule.ts'
import { GIVEN } from '../../costs/request-costs.ts'
import { calendarOf, PERIODS } from '../../limiter/calendar.ts'
import { WINDOW } from '../../limiter/limit.ts'
import type { PlanRule } from '../plan.ts'

function rule(config: object): PlanRule {
  return compiledRule(windowRule('r', ['ip:address'], config))
}

function errors(config: object): string[] {
  return problemsOf(windowRule('r', [], config)).errors
}

describe('a fixed_window rule', () => {
  test('is one window of its calendar, UTC by default, from which each request takes one', () => {
    const { counters, cost } = rule({ limit: 1000, period: '1d' })
    expect(counters).toMatchObject([
      { part: 'window', limit: { kind: WINDOW, tokens: 1000, calendar: calendarOf('1d', 'UTC'), canOverdraw: false } },
    ])
    expect(counters).toMatchObject([{ size: 1000, limitText: '1000', reason: 'quota_exceeded', isSettled: false }])
    expect(cost).toBe(GIVEN)
  })

  test.each(PERIODS)('may have the period %s', (period) => {
    expect(rule({ limit: 1, period }).counters[0]!.limit).toMatchObject({ calendar: { period, zone: 'UTC' } })
  })

  test('is told from others by period and zone too', () => {
    const { identity } = rule({ limit: 5, period: '1mo', timezone: 'Europe/Berlin' }).counters[0]!
    expect(identity).toEqual(['p', 'r', 'enforce', 'fixed_window', 'ip:address', '1mo', 'Europe/Berlin', 'window'])
  })

  test('is the same one with another limit, cost or when_over', () => {
    const { identity } = rule({ limit: 5, period: '1d' }).counters[0]!
    expect(rule({ limit: 9, period: '1d', timezone: 'UTC', cost: 3, when_over: 'charge' }).counters[0]!.identity).toEqual(identity)
  })

  test.each([
    ['europe/berlin', 'Europe/Berlin'],
    ['EUROPE/BERLIN', 'Europe/Berlin'],
    ['Etc/UTC', 'UTC'],
    ['gmt', 'UTC'],
    ['america/new_york', 'America/New_York'],
  ])('is the same one however its zone is spelled: %s', (spelled, timezone) => {
    const identityOf = (zone: string) => rule({ limit: 5, period: '1d', timezone: zone }).counters[0]!.identity
    expect(identityOf(spelled)).toEqual(identityOf(timezone))
  })
})

describe('a period that does not exist', () => {
  const LIST = '1m, 5m, 10m, 15m, 30m, 1h, 2h, 3h, 4h, 6h, 8h, 12h, 1d, 1w, 1mo, 3mo, 1y'

  test.each([
    ['daily', '1d'],
    ['24h', '1d'],
    ['1 day', '1d'],
    ['7d', '1w'],
    ['week', '1w'],
    ['1month', '1mo'],
    ['quarter', '3mo'],
    ['12mo', '1y'],
    ['60m', '1h'],
    ['60s', '1m'],
  ])('is refused, and %s was meant for %s', (period, meant) => {
    expect(errors({ limit: 5, period })).toEqual([
      `algorithm_config.period: expected a period such as ${meant}, one of ${LIST}, got "${period}"`,
    ])
  })

  test.each(['fortnight', '30d', '2d', '1M', '', '1', 'd1', '0d', '1e9d', 'm'.repeat(5000)])(
    'is refused, whatever it is: %.20s',
    (period) => {
      expect(errors({ limit: 5, period })).toEqual([
        expect.stringMatching(`^algorithm_config.period: expected a period such as 1[a-z]+, one of ${LIST}, got `),
      ])
    },
  )

  test('is refused where it is no text, and where it is missing', () => {
    expect(errors({ limit: 5, period: 5 })).toEqual([expect.stringMatching(/^algorithm_config\.period: .*, got 5$/)])
    expect(errors({ limit: 5 })).toEqual([expect.stringMatching(/^algorithm_config\.period: .*, but it is missing$/)])
  })
})

describe('a time zone that does not exist', () => {
  test.each([
    ['Europe/Berln', 'Europe/Berlin'],
    ['Berlin', 'Europe/Berlin'],
    ['new york', 'America/New_York'],
    ['America/New York', 'America/New_York'],
    ['Mars/Olympus_Mons', 'Europe/Berlin'],
    ['+02:00', 'Europe/Berlin'],
    ['UTC+1', 'Europe/Berlin'],
    // Several zones share it, and versions of Node differ in which they choose.
    ['PST', 'Europe/Berlin'],
    ['EST', 'Europe/Berlin'],
    ['', 'Europe/Berlin'],
  ])('is refused, with a name that exists: %s', (timezone, suggested) => {
    expect(errors({ limit: 5, period: '1d', timezone })).toEqual([
      `algorithm_config.timezone: expected an IANA time zone as Area/City, such as ${suggested}, got "${timezone}"`,
    ])
  })

  test('is looked for among names that are listed once, however many are wrong', () => {
    const listed = vi.spyOn(Intl, 'supportedValuesOf')
    try {
      for (let i = 0; i < 100; i++) expect(errors({ limit: 5, period: '1d', timezone: `Mars/M${i}` })).toHaveLength(1)
      expect(listed.mock.calls.length).toBeLessThanOrEqual(1)
    } finally {
      listed.mockRestore()
    }
  })

  test.each([[7], [null], [['UTC']], [{}], ['x'.repeat(100_000)], ['Europe/'.repeat(20_000)]])(
    'is refused where it is no name at all',
    (timezone) => {
      expect(errors({ limit: 5, period: '1d', timezone })).toEqual([
        expect.stringMatching(/^algorithm_config\.timezone: expected an IANA time zone/),
      ])
    },
  )
})

describe('a limit', () => {
  test.each([1, 999_999_999_999_999])('may be %i', (limit) => {
    expect(errors({ limit, period: '1d' })).toEqual([])
  })

  test.each([0, -1, 1.5, 1e15, '5', null])('that is %s is refused', (limit) => {
    expect(errors({ limit, period: '1d' })[0]).toMatch(
      /^algorithm_config\.limit: expected a whole number of requests, from 1 to 999999999999999, got /,
    )
  })
})

test('all problems are named at once, with the fields that do not belong there', () => {
  expect(
    errors({ limit: 0, period: 'daily', timezone: 'Berlin', burst: 5, perod: '1d' }).map((text) => text.split(': expected')[0]),
  ).toEqual([
    'algorithm_config.limit',
    'algorithm_config.period',
    'algorithm_config.timezone',
    'algorithm_config: unknown field "burst": only token_bucket has it',
    'algorithm_config: unknown field "perod": did you mean "period"?',
  ])
})
