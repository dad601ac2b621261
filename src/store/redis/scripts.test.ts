import { expect, test } from 'vitest'
import { counterProbe, counterScripts } from './scripts.ts'

test.for<[reply: unknown, isValid: boolean]>([
  [[1, 1767225600000, 0, 0, 0, 0, 0], true],
  [[0, 1767225600000.123, 0.5, 0, 0, 0, 0], true],
  [[2, 1767225600000], false],
  [[1, 1767225600000], false],
  [[1, 0, 0, 0, 0, 0, 0], false],
  [[1, Number.POSITIVE_INFINITY, 0, 0, 0, 0, 0], false],
  [[1, 1e17, 0, 0, 0, 0, 0], false],
  [[1, 1767225600000, Number.POSITIVE_INFINITY, 0, 0, 0, 0], false],
  [[1, 1767225600000, 0, 0, 0, Number.NaN, 0], false],
  [[1, 1767225600000, null, null, null, null, null], false],
  [['1', '1767225600000', '0', '0', '0', '0', '0'], false],
  [[], false],
  ['OK', false],
  ['1 1767225600000 0 0', false],
  [1, false],
  [null, false],
])('%j as the reply to a probe: %j', ([reply, isValid]) => {
  expect(counterProbe(counterScripts().buckets, 'key').isValidReply(reply)).toBe(isValid)
})
