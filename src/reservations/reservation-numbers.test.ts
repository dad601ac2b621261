import fc from 'fast-check'
import { expect, test } from 'vitest'
import { newNumbersBuffer, ReservationNumbers } from './reservation-numbers.ts'

const HOUR_MS = 3_600_000
const NOON_MS = Date.UTC(2026, 0, 15, 12)
const NOON = NOON_MS / HOUR_MS

test('a worker counts from 0 in each hour', () => {
  const numbers = new ReservationNumbers(newNumbersBuffer(2), 2)
  const times = [0, 1, HOUR_MS - 1, HOUR_MS].map((ms) => numbers.next(NOON_MS + ms))
  expect(times).toEqual([
    { hour: NOON, number: 0 },
    { hour: NOON, number: 1 },
    { hour: NOON, number: 2 },
    { hour: NOON + 1, number: 0 },
  ])
})

test('a number is marked once, by any thread, and only if it was given out', () => {
  const buffer = newNumbersBuffer(2)
  const [one, other] = [new ReservationNumbers(buffer, 1), new ReservationNumbers(buffer, 2)]
  for (let i = 0; i < 40; i++) one.next(NOON_MS)
  expect(other.mark(1, NOON, 33)).toBe('marked')
  expect([one.mark(1, NOON, 33), other.mark(1, NOON, 33)]).toEqual(['already', 'already'])
  expect(one.mark(1, NOON, 32)).toBe('marked')
  expect([one.mark(1, NOON, 40), one.mark(2, NOON, 0), one.mark(0, NOON, 0), one.mark(3, NOON, 0), one.mark(1, NOON - 4, 0)]).toEqual(
    Array(5).fill('lost'),
  )
})

test('marks of three hours are kept, and the slot of the fourth starts empty', () => {
  const numbers = new ReservationNumbers(newNumbersBuffer(1), 1)
  for (let hour = 0; hour < 4; hour++) {
    numbers.next(NOON_MS + hour * HOUR_MS)
    expect(numbers.mark(1, NOON + hour, 0)).toBe('marked')
  }
  expect([0, 1, 2, 3].map((hour) => numbers.mark(1, NOON + hour, 0))).toEqual(Array(4).fill('already'))
  numbers.next(NOON_MS + 4 * HOUR_MS)
  expect(numbers.mark(1, NOON, 0)).toBe('lost')
  expect(numbers.mark(1, NOON + 4, 0)).toBe('marked')
})

test('a thread that replaces one that died goes on where that ended', () => {
  const buffer = newNumbersBuffer(1)
  new ReservationNumbers(buffer, 1).next(NOON_MS)
  expect(new ReservationNumbers(buffer, 1).next(NOON_MS)).toEqual({ hour: NOON, number: 1 })
})

test('no number is given out twice, however the clock is set', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -20, max: 20 }), { minLength: 1, maxLength: 40 }), (hours) => {
      const numbers = new ReservationNumbers(newNumbersBuffer(1), 1)
      const given = hours.map((ahead) => JSON.stringify(numbers.next(NOON_MS + ahead * HOUR_MS)))
      expect(new Set(given).size).toBe(hours.length)
    }),
    { numRuns: 50 },
  )
})

test('when the 2^23 numbers of an hour are used up, there are none until the next', () => {
  const buffer = newNumbersBuffer(1)
  const numbers = new ReservationNumbers(buffer, 1)
  numbers.next(NOON_MS)
  // The only word that is 1 says how many were given out: as if it had been all but two.
  const words = new Int32Array(buffer)
  words[words.indexOf(1)] = 2 ** 23 - 2
  expect([numbers.next(NOON_MS), numbers.next(NOON_MS)]).toEqual([2, 1].map((left) => ({ hour: NOON, number: 2 ** 23 - left })))
  expect(numbers.next(NOON_MS)).toBeUndefined()
  expect(numbers.next(NOON_MS + HOUR_MS)).toEqual({ hour: NOON + 1, number: 0 })
})

test('a clock that was a day ahead once takes no numbers from the hours that follow', () => {
  const buffer = newNumbersBuffer(1)
  const numbers = new ReservationNumbers(buffer, 1)
  const words = new Int32Array(buffer)
  numbers.next(NOON_MS)
  const ahead = numbers.next(NOON_MS + 24 * HOUR_MS)!
  const given = [0, 1, 2, 3].map((hour) => {
    const first = new ReservationNumbers(buffer, 1).next(NOON_MS + hour * HOUR_MS)
    const slot = words.indexOf(first!.hour)
    words[slot + 1] = 2 ** 23
    expect(numbers.next(NOON_MS + (hour + 1) * HOUR_MS - 1)).toBeUndefined()
    return first
  })
  expect(given).toEqual([25, 26, 27, 28].map((hour) => ({ hour: NOON + hour, number: 0 })))
  expect([numbers.mark(1, given[3]!.hour, 0), numbers.mark(1, ahead.hour, 0)]).toEqual(['marked', 'lost'])
})

test('a clock that is set back by an hour stays in the newest hour, and what it gave out before can be marked', () => {
  const numbers = new ReservationNumbers(newNumbersBuffer(1), 1)
  const hours = [0, 1, 0.5, 0, 2].map((ahead) => numbers.next(NOON_MS + ahead * HOUR_MS))
  expect(hours.map((numbered) => numbered!.hour - NOON)).toEqual([0, 1, 1, 1, 2])
  for (const { hour, number } of hours.map((numbered) => numbered!)) expect(numbers.mark(1, hour, number)).toBe('marked')
})

test('copies of what was given out have a bit for each number that is marked', () => {
  const numbers = new ReservationNumbers(newNumbersBuffer(2), 2)
  expect(numbers.hasIssued).toBe(false)
  for (let i = 0; i < 10; i++) numbers.next(NOON_MS)
  numbers.mark(2, NOON, 9)
  expect(numbers.hasIssued).toBe(true)
  expect([...numbers.issued()]).toEqual([{ worker: 2, hour: NOON, count: 10, bits: Uint8Array.of(0, 2, 0, 0) }])
})
