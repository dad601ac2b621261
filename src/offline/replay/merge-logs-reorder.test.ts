import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type LoggedRequest, WholeRequest } from './logs/logged-request.ts'
import { ReorderWindow } from './merge-logs.ts'

function requestAt(timeMs: number, uri = '/'): LoggedRequest {
  return new WholeRequest({ timeMs, method: 'GET', uri, host: '', peer: undefined, fields: [], body: undefined, size: 10 })
}

/** Passes times through a window of this size. */
function through(times: readonly number[], size: number): number[] {
  const window = new ReorderWindow()
  const passed: number[] = []
  const pass = (): void => {
    passed.push(window.earliest!.timeMs)
    window.removeEarliest()
  }
  for (const time of times) {
    window.add(requestAt(time))
    if (window.size !== 10 * window.length) expect.unreachable()
    if (window.length > size) pass()
  }
  while (window.length > 0) pass()
  expect([window.size, window.earliest]).toEqual([0, undefined])
  return passed
}

test('whatever is in the window leaves it in order', () => {
  const times = fc.array(fc.nat(1000), { maxLength: 200 })
  fc.assert(fc.property(times, (given) => void expect(through(given, given.length)).toEqual([...given].sort((a, b) => a - b))))
})

test('what stands no further from its place than the window is long is put in order', () => {
  const moves = fc.uniqueArray(fc.tuple(fc.nat(900), fc.nat(20)), { maxLength: 50, selector: ([time]) => time })
  fc.assert(
    fc.property(moves, (given) => {
      const times = Array.from({ length: 1000 }, (_, i) => i)
      for (const [time, by] of given) {
        const at = times.indexOf(time)
        times.splice(at + by, 0, ...times.splice(at, 1))
      }
      // Each of the others may have pushed it one place further.
      expect(through(times, 20 + given.length)).toEqual(Array.from({ length: 1000 }, (_, i) => i))
    }),
    { numRuns: 20 },
  )
})

test('a log in reverse order loses nothing', () => {
  const times = Array.from({ length: 5000 }, (_, i) => 5000 - i)
  const passed = through(times, 100)
  expect(passed.toSorted((a, b) => a - b)).toEqual(times.toReversed())
})

test('requests of the same time keep their order', () => {
  const times = fc.array(fc.nat(5), { maxLength: 50 })
  fc.assert(
    fc.property(times, (given) => {
      const requests = given.map((time, i) => requestAt(time, `/${i}`))
      const window = new ReorderWindow()
      for (const request of requests) window.add(request)
      const passed: LoggedRequest[] = []
      for (let next = window.earliest; next !== undefined; next = window.earliest) {
        passed.push(next)
        window.removeEarliest()
      }
      expect(passed.map(({ uri }) => uri)).toEqual(requests.toSorted((a, b) => a.timeMs - b.timeMs).map(({ uri }) => uri))
    }),
  )
})
