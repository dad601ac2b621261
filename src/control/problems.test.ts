import { describe, expect, test } from 'vitest'
import { type LogEvent, PROBLEM_EVENTS, Problems } from './problems.ts'

const MINUTE_MS = 60_000

function problemsAfter(...lines: LogEvent[]): Problems {
  const problems = new Problems()
  for (const [i, line] of lines.entries()) problems.note(line, i * 1000)
  return problems
}

describe('what is wrong now', () => {
  test('is reported with its cause, until the event that ends it', () => {
    const problems = problemsAfter({ event: 'state_not_saved', msg: 'counters could not be saved', reason: 'disk full' })
    const expected = { code: 'state_not_saved', message: 'counters could not be saved: disk full', since: '1970-01-01T00:00:00.000Z' }
    expect(problems.list(100 * MINUTE_MS)).toEqual([{ ...expected, details: [], details_in_all: 0 }])
    problems.note({ event: 'state_saved_again' }, 100 * MINUTE_MS)
    expect(problems.list(100 * MINUTE_MS)).toEqual([])
  })

  test('keeps its beginning when it is reported again, with the newest cause', () => {
    const problems = problemsAfter(
      { event: 'state_not_saved', msg: 'not saved', reason: 'disk full' },
      { event: 'state_not_saved', msg: 'not saved', reason: 'read-only' },
    )
    expect(problems.list(5000)).toMatchObject([{ message: 'not saved: read-only', since: '1970-01-01T00:00:00.000Z' }])
  })

  test('is one problem where several workers report it, and over when the last one says so', () => {
    const problems = problemsAfter(
      { event: 'redis_unavailable', worker: 1, node: 'a:1', msg: 'gone' },
      { event: 'redis_unavailable', worker: 2, node: 'a:1', msg: 'gone' },
      { event: 'redis_unavailable', worker: 2, node: 'b:1', msg: 'gone' },
    )
    expect(problems.list(5000).map(({ since }) => since)).toEqual(['1970-01-01T00:00:00.000Z', '1970-01-01T00:00:02.000Z'])
    problems.note({ event: 'redis_available', worker: 1, node: 'a:1' }, 5000)
    expect(problems.list(5000)).toHaveLength(2)
    problems.note({ event: 'redis_available', worker: 2, node: 'a:1' }, 5000)
    problems.note({ event: 'redis_available', worker: 2, node: 'b:1' }, 5000)
    expect(problems.list(5000)).toEqual([])
  })

  test('with a backend is over when it has recovered, or soon after its last failure', () => {
    const failed = (backend: string | undefined, reason: string) => ({ event: 'backend_failed', msg: 'no response', backend, reason })
    const problems = problemsAfter(
      failed('a', 'backend_reset'),
      failed('a', 'backend_refused'),
      failed('b', 'backend_reset'),
      failed(undefined, 'backend_reset'),
    )
    const messages = (wallMs: number) => problems.list(wallMs).map(({ message }) => message)
    expect(messages(3000)).toEqual(['no response: backend_refused', 'no response: backend_reset', 'no response: backend_reset'])
    problems.note({ event: 'backend_recovered', backend: 'a' }, 4000)
    expect(messages(4000)).toHaveLength(2)
    expect(messages(22_500)).toHaveLength(1)
    problems.note(failed(undefined, 'backend_reset'), 23_000)
    expect(messages(30_000)).toHaveLength(1)
    expect(messages(43_001)).toEqual([])
  })

  test('does not include what a dead worker reported of itself', () => {
    const problems = problemsAfter(
      { event: 'redis_unavailable', worker: 1, node: 'a:1', msg: 'gone' },
      { event: 'worker_died', worker: 1, msg: 'it threw', err: { message: 'a bug' } },
    )
    expect(problems.list(5000)).toMatchObject([{ code: 'worker_died', message: 'it threw: a bug' }])
    problems.note({ event: 'worker_replaced', worker: 1 }, 5000)
    expect(problems.list(5000)).toEqual([])
  })

  test('has one problem with the bundle at most, the last', () => {
    const problems = problemsAfter(
      { event: 'bundle_refused', msg: 'refused', problems: ['policies[0].id: missing'] },
      { event: 'bundle_unreadable', msg: 'unreadable', reason: 'there is no such file' },
    )
    expect(problems.list(5000)).toMatchObject([{ code: 'bundle_unreadable' }])
    problems.note({ event: 'bundle_refused', msg: 'refused', problems: ['policies[0].id: missing'] }, 5000)
    expect(problems.list(5000)).toMatchObject([{ code: 'bundle_refused', message: 'refused: policies[0].id: missing' }])
    problems.note({ event: 'bundle_unchanged' }, 5000)
    expect(problems.list(5000)).toEqual([])
  })

  test('passes after two minutes where no event ends it', () => {
    const problems = problemsAfter({ event: 'counters_evicted', msg: 'too small' })
    problems.note({ event: 'counters_evicted', msg: 'too small' }, MINUTE_MS)
    expect(problems.list(3 * MINUTE_MS)).toMatchObject([{ since: '1970-01-01T00:00:00.000Z' }])
    expect(problems.list(3 * MINUTE_MS + 1)).toEqual([])
    problems.note({ event: 'counters_evicted', msg: 'too small' }, 10 * MINUTE_MS)
    expect(problems.list(10 * MINUTE_MS)).toMatchObject([{ since: '1970-01-01T00:10:00.000Z' }])
  })

  test('is bounded, whatever is reported', () => {
    const problems = new Problems()
    for (let i = 0; i < 1000; i++) problems.note({ event: 'ip_file_refused', path: `/${i}`, msg: 'x'.repeat(10_000) }, i)
    const listed = problems.list(5000)
    expect(listed).toHaveLength(200)
    expect(listed[0]!.message).toHaveLength(500)
  })

  test('ignores all other events', () => {
    expect(PROBLEM_EVENTS.has('reject')).toBe(false)
    expect(problemsAfter({ event: 'reject' }, { event: 'constructor' }, { event: '__proto__' }).list(0)).toEqual([])
  })
})
