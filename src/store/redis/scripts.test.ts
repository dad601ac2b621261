import { expect, test } from 'vitest'
import { counterProbe, counterScript } from './scripts.ts'

test.for<[reply: unknown, isValid: boolean]>([
  ['1 1767225600000 0 0', true],
  ['0 1767225600000.123 0.5 0', true],
  ['OK', false],
  ['1', false],
  ['1 ', false],
  ['2 1767225600000 0 0', false],
  [1, false],
  [null, false],
  [['1 1767225600000'], false],
])('%j as the reply to a probe: %j', ([reply, isValid]) => {
  expect(counterProbe(counterScript(), 'key').isValidReply(reply)).toBe(isValid)
})
