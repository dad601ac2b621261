import { expect, test } from 'vitest'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { RecentEvents } from './recent-events.ts'

const HOUR_MS = 3_600_000

function keeping() {
  const clock = new ManualClock()
  const recent = new RecentEvents(clock.wallMs())
  return {
    clock,
    recent,
    add: (name: string, i = 0, filler = '') => recent.add({ name, line: JSON.stringify({ event: name, i, filler }) }, clock.wallMs()),
    /** What `i` says of the kept ones. */
    kept: (...names: string[]) =>
      recent
        .list({ names: names.length === 0 ? undefined : names }, 5000, clock.wallMs())
        .lines.map((line) => (JSON.parse(line) as { i: number }).i),
    isComplete: (ask: object = {}, limit = 5000) => recent.list(ask, limit, clock.wallMs()).isComplete,
  }
}

test('events are kept for an hour, whether or not others come', () => {
  const { clock, add, kept } = keeping()
  add('reject', 1)
  clock.advance(HOUR_MS - 1)
  add('started', 2)
  expect(kept()).toEqual([1, 2])
  clock.advance(1)
  expect(kept()).toEqual([2])
  clock.advance(HOUR_MS)
  expect(kept()).toEqual([])
})

test('a flood of rejects pushes out rejects, and nothing else', () => {
  const { add, kept, isComplete } = keeping()
  for (let i = 0; i < 30; i++) add('bundle_applied', i)
  for (let i = 0; i < 10_000; i++) add('reject', i)
  for (let i = 30; i < 40; i++) add('override_set', i)
  expect(kept('bundle_applied', 'override_set')).toHaveLength(40)
  expect(kept('reject').length).toBe(2000 - 40)
  expect(kept('reject').at(-1)).toBe(9999)
  expect(isComplete({ names: ['bundle_applied', 'override_set'] })).toBe(true)
  expect(isComplete({ names: ['reject'] })).toBe(false)
  expect(isComplete()).toBe(false)
})

test('long lines take room from lines of their own name', () => {
  const { recent, add, kept, clock } = keeping()
  for (let i = 0; i < 20; i++) add('override_set', i)
  for (let i = 0; i < 500; i++) add('bundle_refused', i, 'x'.repeat(16_000))
  expect(kept('override_set')).toHaveLength(20)
  const { lines } = recent.list({}, 5000, clock.wallMs())
  expect(lines.reduce((sum, line) => sum + line.length, 0)).toBeLessThanOrEqual(512 * 1024)
  expect(kept('bundle_refused').at(-1)).toBe(499)
})

test('a list has the newest, and says whether that is all', () => {
  const { clock, recent, add, isComplete } = keeping()
  const startedMs = clock.wallMs()
  for (let i = 0; i < 10; i++) {
    add('reject', i)
    clock.advance(1000)
  }
  const newest = recent.list({}, 3, clock.wallMs())
  expect(newest).toMatchObject({ sinceMs: startedMs, isComplete: false })
  expect(newest.lines.map((line) => (JSON.parse(line) as { i: number }).i)).toEqual([7, 8, 9])
  const sinceMs = clock.wallMs() - 4000
  expect(recent.list({ sinceMs }, 5000, clock.wallMs())).toMatchObject({ sinceMs, isComplete: true, lines: { length: 4 } })
  expect(isComplete({ sinceMs }, 4)).toBe(true)
})

test('a list is not called complete where a thread held events back', () => {
  const { clock, recent, add, isComplete } = keeping()
  recent.add({ name: 'reject', line: '{}', isLastForNow: true }, clock.wallMs())
  clock.advance(1)
  add('reject')
  expect(isComplete()).toBe(false)
  expect(isComplete({ names: ['started'] })).toBe(true)
  expect(isComplete({ sinceMs: clock.wallMs() })).toBe(true)
})

test('nor where older events were removed after that', () => {
  const { clock, recent, add, isComplete } = keeping()
  for (let i = 0; i < 1500; i++) add('reject', i)
  clock.advance(1000)
  const sinceMs = clock.wallMs()
  recent.add({ name: 'reject', line: '{}', isLastForNow: true }, sinceMs)
  for (let i = 0; i < 600; i++) add('started', i)
  expect(isComplete({ sinceMs, names: ['reject'] })).toBe(false)
  expect(isComplete({ sinceMs, names: ['started'] })).toBe(true)
})

test('pages have every wanted event once, in order, and the last one leads to what comes', () => {
  const { clock, recent, add } = keeping()
  for (let i = 0; i < 1000; i++) add(i % 2 === 0 ? 'reject' : 'started', i, 'x'.repeat(200))
  const seen: number[] = []
  let after: number | undefined
  for (let isEnd = false; !isEnd; ) {
    const page = recent.page({ after, names: ['reject'] }, clock.wallMs())
    expect(page.events.reduce((sum, { line }) => sum + line.length, 0)).toBeLessThanOrEqual(32 * 1024)
    seen.push(...page.events.map(({ line }) => (JSON.parse(line) as { i: number }).i))
    after = page.last
    isEnd = page.isEnd
  }
  expect(seen).toEqual(Array.from({ length: 500 }, (_, i) => 2 * i))
  expect(add('reject').number).toBe(after! + 1)
})

test('a reader of an earlier process gets what is kept, and so does one whose number lies ahead', () => {
  const { clock, recent, add } = keeping()
  const before = new RecentEvents(clock.wallMs() - 60_000).add({ name: 'started', line: '{}' }, clock.wallMs()).number!
  add('started')
  for (const after of [before, Number.MAX_SAFE_INTEGER, 0]) expect(recent.page({ after }, clock.wallMs()).events).toHaveLength(1)
})

test('a clock that is set back loses nothing and keeps nothing for ever', () => {
  const { clock, add, kept } = keeping()
  add('reject', 1)
  clock.setBack(24 * HOUR_MS)
  add('reject', 2)
  expect(kept()).toEqual([1, 2])
  for (let i = 0; i < 3000; i++) add('reject', i)
  expect(kept()).toHaveLength(2000)
})
