import { describe, expect, test } from 'vitest'
import { calendarOf } from '../calendar.ts'
import { type CounterRecord, NEVER, newRecord, WINDOW, type WindowLimit } from '../limit.ts'
import { newWarning, window } from './window.ts'

const HOUR_MS = 3_600_000
const NOON_MS = Date.UTC(2026, 2, 29, 12)

function limitOf(tokens: number, period: '1h' | '1d', zone: string): WindowLimit {
  return { kind: WINDOW, tokens, calendar: calendarOf(period, zone) }
}

function usedOf(limit: WindowLimit, used: number, wallMs: number): CounterRecord {
  const record = newRecord()
  window.begin(limit, record, 0, wallMs)
  window.take(record, used)
  return record
}

describe('a window', () => {
  test('that begins has nothing used, ends where its calendar says, and could be forgotten', () => {
    const limit = limitOf(100, '1d', 'Europe/Berlin')
    const record = usedOf(limit, 0, NOON_MS)
    expect(record).toEqual({ kind: WINDOW, level: 0, at: Date.UTC(2026, 2, 29, 22), size: 100, rate: 0 })
    expect(window.worthMs(record, 0, NOON_MS)).toBe(0)
  })

  test('is another one in each period and zone, by number', () => {
    const [day, hour] = [limitOf(100, '1d', 'UTC'), limitOf(100, '1h', 'UTC')]
    expect(window.windowAt(day, NOON_MS)).toBe(Math.floor(NOON_MS / (24 * HOUR_MS)))
    expect(window.windowAt(hour, NOON_MS + HOUR_MS)).toBe(window.windowAt(hour, NOON_MS) + 1)
  })

  test('waits for its end, be the day of 23 hours', () => {
    const limit = limitOf(100, '1d', 'Europe/Berlin')
    const startMs = Date.UTC(2026, 2, 28, 23)
    expect(window.waitMs(limit, 10, 11, startMs)).toBe(23 * HOUR_MS)
    expect(window.resetMs(limit, 10, startMs)).toBe(23 * HOUR_MS)
    expect(window.waitMs(limit, 10, 10, startMs)).toBe(0)
    expect(window.waitMs(limit, 0, 0, startMs)).toBe(0)
    expect(window.waitMs(limit, 100, 101, startMs)).toBe(NEVER)
    expect(window.resetMs(limit, 100, startMs)).toBe(0)
  })

  test('keeps what is used when its limit changes', () => {
    const record = usedOf(limitOf(100, '1d', 'UTC'), 80, NOON_MS)
    const smaller = limitOf(50, '1d', 'UTC')
    window.refresh(smaller, record, 0, 0)
    expect([record.level, window.left(smaller, record)]).toEqual([80, -30])
  })

  test('gets back no more than was used, and is charged beyond its tokens', () => {
    const limit = limitOf(100, '1d', 'UTC')
    const record = usedOf(limit, 30, NOON_MS)
    window.settle(record, 80)
    expect(record.level).toBe(0)
    window.settle(record, -130)
    expect([record.level, window.left(limit, record)]).toEqual([130, -30])
  })

  test('is the same limit by its tokens, period and zone, even where it was copied from another thread', () => {
    const limit = limitOf(100, '1d', 'Europe/Berlin')
    expect(window.isSame(limit, structuredClone(limit))).toBe(true)
    for (const other of [limitOf(99, '1d', 'Europe/Berlin'), limitOf(100, '1h', 'Europe/Berlin'), limitOf(100, '1d', 'UTC')]) {
      expect(window.isSame(limit, structuredClone(other))).toBe(false)
    }
  })

  test('that can be overdrawn tells its debt, and waits for its end from zero on, whatever a request takes', () => {
    const limit = { ...limitOf(100, '1h', 'UTC'), canOverdraw: true }
    expect(window.left(limit, usedOf(limit, 130, NOON_MS))).toBe(-30)
    expect([1, 0.5].map((left) => window.waitMs(limit, left, 1000, NOON_MS))).toEqual([0, 0])
    expect([0, -30].map((left) => window.waitMs(limit, left, 0, NOON_MS + 1))).toEqual([HOUR_MS - 1, HOUR_MS - 1])
  })

  test('is worth the time until its end, a little more if more is spent of it, and nothing once it is over', () => {
    const limit = limitOf(100, '1d', 'UTC')
    const [few, many, debt] = [30, 100, 300].map((used) => window.worthMs(usedOf(limit, used, NOON_MS), 0, NOON_MS))
    for (const worth of [few!, many!, debt!]) expect(worth / (12 * HOUR_MS)).toBeCloseTo(1, 5)
    expect(few).toBeLessThan(many!)
    expect(debt).toBe(many)
    expect(window.worthMs(usedOf(limit, 300, NOON_MS), 0, NOON_MS + 12 * HOUR_MS)).toBe(0)
  })

  test('that has warned is kept until its end, even if all was given back, and is the first to be evicted', () => {
    const limit = { ...limitOf(100, '1d', 'UTC'), warnings: [{ percent: 80, tokens: 80 }] }
    const record = usedOf(limit, 80, NOON_MS)
    expect([newWarning(limit, record), newWarning(limit, record)]).toEqual([80, 0])
    window.settle(record, 80)
    const worth = window.worthMs(record, 0, NOON_MS)
    expect(worth).toBeGreaterThan(0)
    expect(worth).toBeLessThan(window.worthMs(usedOf(limit, 0.001, NOON_MS), 0, NOON_MS))
    expect(window.worthMs(record, 0, NOON_MS + 12 * HOUR_MS)).toBe(0)
  })
})
