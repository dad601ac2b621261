import { expect, test } from 'vitest'
import { bundle, concurrencyRule, policy } from '../../../test/support/bundles/bundles.ts'
import { IN_FLIGHT } from '../../limiter/limit.ts'
import { formatProblem } from '../../text/problem.ts'
import { compileBundle, namedLimits } from '../compile.ts'
import { parseBundle } from '../parse.ts'
import type { Plan } from '../plan.ts'
import { heldRules } from '../review/warnings.ts'

const CONFIG = 'policies[0].spec.rules[0].algorithm_config'
const IN_FLIGHT_FORM = 'expected a whole number of requests, from 1 to 1000000'
const HOLD_FORM = 'expected a whole number of seconds, from 1 to 3600'

test('a rule has one counter, in slices of an eighth of hold_seconds', () => {
  expect(planOf(concurrencyRule('r', ['header:x'], 5, 2)).counters).toMatchObject([
    {
      part: 'in_flight',
      limit: { kind: IN_FLIGHT, max: 5, sliceMs: 250 },
      size: 5,
      limitText: '5',
      reason: 'concurrency_exceeded',
      isLeasable: false,
      isSettled: true,
    },
  ])
})

test('hold_seconds is 60 where it is not given', () => {
  expect(planOf(concurrencyRule('r', [], 5)).counters[0]!.limit).toMatchObject({ sliceMs: 7500 })
})

test('another number of requests is the same counter, and another hold_seconds is another one', () => {
  const [one, more, longer] = [concurrencyRule('r', [], 5, 30), concurrencyRule('r', [], 6, 30), concurrencyRule('r', [], 5, 31)].map(
    (rule) => planOf(rule).counters[0]!.identity,
  )
  expect(more).toEqual(one)
  expect(longer).not.toEqual(one)
})

test('rules on requests in flight are found by the limits of their counters', () => {
  const { counters } = planOf(concurrencyRule('a "b"', ['header:x'], 5, 1), concurrencyRule('c', [], 5))
  expect(heldRules(namedLimits(counters))).toEqual([
    { policy: 'p', rule: 'a "b"', holdSeconds: 1 },
    { policy: 'p', rule: 'c', holdSeconds: 60 },
  ])
})

test.each<[string, object, string]>([
  ['no number', {}, `${CONFIG}.max_in_flight: ${IN_FLIGHT_FORM}, but it is missing`],
  ['none', { max_in_flight: 0 }, `${CONFIG}.max_in_flight: ${IN_FLIGHT_FORM}, got 0`],
  ['less than none', { max_in_flight: -1 }, `${CONFIG}.max_in_flight: ${IN_FLIGHT_FORM}, got -1`],
  ['a part of a request', { max_in_flight: 1.5 }, `${CONFIG}.max_in_flight: ${IN_FLIGHT_FORM}, got 1.5`],
  ['too many', { max_in_flight: 1_000_001 }, `${CONFIG}.max_in_flight: ${IN_FLIGHT_FORM}, got 1000001`],
  ['far too many', { max_in_flight: 1e300 }, `${CONFIG}.max_in_flight: ${IN_FLIGHT_FORM}, got 1e+300`],
  ['a text', { max_in_flight: '5' }, `${CONFIG}.max_in_flight: ${IN_FLIGHT_FORM}, got "5" — remove the quotes?`],
  ['a list', { max_in_flight: [5] }, `${CONFIG}.max_in_flight: ${IN_FLIGHT_FORM}, got a list`],
  ['no time', { max_in_flight: 5, hold_seconds: 0 }, `${CONFIG}.hold_seconds: ${HOLD_FORM}, got 0`],
  ['a part of a second', { max_in_flight: 5, hold_seconds: 0.5 }, `${CONFIG}.hold_seconds: ${HOLD_FORM}, got 0.5`],
  ['more than an hour', { max_in_flight: 5, hold_seconds: 3601 }, `${CONFIG}.hold_seconds: ${HOLD_FORM}, got 3601`],
  ['no time at all', { max_in_flight: 5, hold_seconds: null }, `${CONFIG}.hold_seconds: ${HOLD_FORM}, got null`],
])('%s is refused', (_, config, message) => {
  const rule = { name: 'r', limit_keys: [], algorithm: 'concurrency', algorithm_config: config }
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules: [rule] }))))
  expect(parsed.ok ? [] : parsed.problems.map(formatProblem)).toEqual([message])
})

test('a field that it does not have is refused, with a suggestion', () => {
  const rule = { name: 'r', limit_keys: [], algorithm: 'concurrency', algorithm_config: { max_in_flight: 5, hold_second: 5 } }
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules: [rule] }))))
  expect(parsed.ok ? [] : parsed.problems.map(formatProblem)).toEqual([
    `${CONFIG}: unknown field "hold_second": did you mean "hold_seconds"?`,
  ])
})

function planOf(...rules: readonly object[]): Plan {
  const parsed = parseBundle(JSON.stringify(bundle(1, policy('p', { rules }))))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}
