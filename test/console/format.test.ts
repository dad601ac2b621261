import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { amountText, leftText, perText } from '../../console/amounts.ts'
import { formatDateTime, formatMoment, formatZone } from '../../console/format.ts'

describe('times in Berlin', () => {
  const { TZ } = process.env
  beforeEach(() => {
    process.env['TZ'] = 'Europe/Berlin'
  })
  afterEach(() => {
    if (TZ === undefined) delete process.env['TZ']
    else process.env['TZ'] = TZ
  })
  const now = Date.parse('2026-01-31T13:30:00Z')

  test('have the zone, and the date where it is not today', () => {
    expect(formatMoment('2026-01-31T13:03:07Z', now)).toBe('14:03:07 UTC+1')
    expect(formatMoment('2026-01-31T23:03:07Z', now)).toBe('2026-02-01 00:03:07 UTC+1')
    expect(formatMoment('2026-01-30T22:59:59Z', now)).toBe('2026-01-30 23:59:59 UTC+1')
    expect(formatMoment('2025-01-31T13:03:07Z', now)).toBe('2025-01-31 14:03:07 UTC+1')
    expect(formatDateTime('2026-01-31T13:03:07Z')).toBe('2026-01-31 14:03:07 UTC+1')
  })

  test('have the zone of their own moment, not that of now', () => {
    expect([formatZone('2026-01-15T14:00:00Z'), formatZone(Date.parse('2026-07-15T14:00:00Z'))]).toEqual(['UTC+1', 'UTC+2'])
    expect(formatMoment('2026-07-15T14:00:00Z', now)).toBe('2026-07-15 16:00:00 UTC+2')
  })
})

test('a zone may be at half an hour, or be that of UTC', () => {
  const { TZ } = process.env
  process.env['TZ'] = 'Asia/Kolkata'
  expect(formatZone(0)).toBe('UTC+5:30')
  process.env['TZ'] = 'UTC'
  expect(formatZone(0)).toBe('UTC')
  if (TZ === undefined) delete process.env['TZ']
  else process.env['TZ'] = TZ
})

test.for([
  [1, 'requests', '1 request'],
  [0, 'requests', '0 requests'],
  [1200, 'tokens', '1,200 tokens'],
  [1, 'tokens', '1 token'],
  [2.5, 'units', '2.5 units'],
  [2000, 'money', '20.00 currency units'],
  [100, 'money', '1.00 currency unit'],
] as const)('an amount of a counter has its unit: %o %s', ([amount, unit, expected]) => {
  expect(amountText(amount, unit)).toBe(expected)
})

test('what is left has its unit once', () => {
  expect(leftText(0, 4, 'requests')).toBe('0 of 4 requests')
  expect(leftText(0, 1, 'requests')).toBe('0 of 1 request')
  expect(leftText(1250, 2000, 'money')).toBe('12.50 of 20.00 currency units')
})

test('a rate has its unit and its time', () => {
  expect(perText(1, 'requests', 'minute')).toBe('1 request per minute')
  expect(perText(20, 'money', 'month')).toBe('20.00 currency units per month')
})
