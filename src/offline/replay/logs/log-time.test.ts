import fc from 'fast-check'
import { expect, test } from 'vitest'
import { numberMs, textMs } from './log-time.ts'

test.each([
  ['2026-01-02T15:04:05Z', '2026-01-02T15:04:05.000Z'],
  ['2026-01-02T15:04:05.678901Z', '2026-01-02T15:04:05.678Z'],
  ['2026-01-02T15:04:05.6Z', '2026-01-02T15:04:05.600Z'],
  ['2026-01-02t15:04:05z', '2026-01-02T15:04:05.000Z'],
  ['2026-01-02 15:04:05+01:00', '2026-01-02T14:04:05.000Z'],
  ['2026-01-02T00:30:00+01:00', '2026-01-01T23:30:00.000Z'],
  ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
  ['02/Jan/2026:15:04:05 +0000', '2026-01-02T15:04:05.000Z'],
  ['02/Jan/2026:15:04:05 +0530', '2026-01-02T09:34:05.000Z'],
  ['31/Dec/2025:23:59:59 -0100', '2026-01-01T00:59:59.000Z'],
  ['1767366245', '2026-01-02T15:04:05.000Z'],
  ['1767366245.678', '2026-01-02T15:04:05.678Z'],
  ['1767366245678', '2026-01-02T15:04:05.678Z'],
])('%s is %s', (text, expected) => {
  expect(new Date(textMs(text)).toISOString()).toBe(expected)
})

test.each([
  '',
  '-',
  'now',
  '2026-01-02',
  '2026-01-02T15:04:05',
  '2026-02-30T00:00:00Z',
  '2026-13-01T00:00:00Z',
  '2026-01-02T24:00:00Z',
  '2026-01-02T15:04:60Z',
  '2026-01-02T15:04:05.Z',
  '2026-01-02T15:04:05.1x3Z',
  '0001-01-01T00:00:00Z',
  '9999-01-01T00:00:00Z',
  '32/Jan/2026:15:04:05 +0000',
  '02/Foo/2026:15:04:05 +0000',
  '02/Jan/2026:15:04:05',
  '-1767366245',
  '1e12',
  '0x10',
  '17673662456789012345',
])('%j is no time', (text) => {
  expect(textMs(text)).toBeNaN()
})

test('numbers are seconds until they would be thousands of years away', () => {
  expect(numberMs(1_767_366_245.5)).toBe(1_767_366_245_500)
  expect(numberMs(1_767_366_245_500)).toBe(1_767_366_245_500)
  for (const value of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e300]) expect(numberMs(value)).toBeNaN()
})

test('every time of Date is read as Date writes it, whatever was read before', () => {
  const times = fc.date({ min: new Date('1970-01-01'), max: new Date('2199-12-31'), noInvalidDate: true })
  fc.assert(fc.property(fc.array(times, { minLength: 1 }), (dates) => dates.every((date) => textMs(date.toISOString()) === date.getTime())))
})
