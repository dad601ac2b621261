import { expect, test } from 'vitest'
import { retryAfterMsOf } from './retry-after.ts'

const NOON_MS = Date.UTC(2026, 10, 18, 12)

test.each([
  ['3', 3000],
  [' 120 ', 120_000],
  ['Wed, 18 Nov 2026 12:00:30 GMT', 30_000],
  ['Wednesday, 18-Nov-26 12:00:30 GMT', 30_000],
  ['Wed Nov 18 12:00:30 2026', 30_000],
  ['Tue Dec  1 12:00:00 2026', 13 * 86_400_000],
  ['9'.repeat(30), Number('9'.repeat(30)) * 1000],
])('%j asks to wait', (value, expectedMs) => {
  expect(retryAfterMsOf(value, undefined, NOON_MS)).toBe(expectedMs)
})

test.each([
  [undefined],
  [''],
  ['0'],
  ['-1'],
  ['1.5'],
  ['1e3'],
  ['0x10'],
  ['3, 4'],
  ['soon'],
  ['Wed, 18 Nov 2026 12:00:30'],
  ['Wed, 18 Abc 2026 12:00:30 GMT'],
  ['Wed, 18 Nov 2026 11:59:59 GMT'],
  ['Wednesday, 18-Nov-99 12:00:30 GMT'],
  ['9'.repeat(65)],
  [' '.repeat(1_000_000)],
])('%j asks for nothing', (value) => {
  expect(retryAfterMsOf(value, undefined, NOON_MS)).toBeUndefined()
})

test('a date is compared with the clock of the backend, if the response has one', () => {
  const value = 'Wed, 18 Nov 2026 12:00:30 GMT'
  expect(retryAfterMsOf(value, 'Wed, 18 Nov 2026 12:00:20 GMT', NOON_MS)).toBe(10_000)
  expect(retryAfterMsOf(value, 'Wed, 18 Nov 2026 12:00:40 GMT', NOON_MS)).toBeUndefined()
  expect(retryAfterMsOf(value, 'yesterday', NOON_MS)).toBe(30_000)
  expect(retryAfterMsOf('5', 'Wed, 18 Nov 2026 12:00:40 GMT', NOON_MS)).toBe(5000)
})
