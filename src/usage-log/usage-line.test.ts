import { expect, test } from 'vitest'
import { traceIdOf } from './usage-line.ts'

const [TRACE, PARENT] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7']

test.each([`00-${TRACE}-${PARENT}-01`, `fe-${TRACE}-${PARENT}-00-more`])('%s names its trace', (field) => {
  expect(traceIdOf(field)).toBe(TRACE)
})

test.each([
  undefined,
  Symbol('repeated'),
  '',
  `ff-${TRACE}-${PARENT}-01`,
  `00-${'0'.repeat(32)}-${PARENT}-01`,
  `00-${TRACE}-${'0'.repeat(16)}-01`,
  `00-${TRACE.toUpperCase()}-${PARENT}-01`,
  `00-${TRACE}-${PARENT}-01more`,
  ` 00-${TRACE}-${PARENT}-01`,
])('%s names none', (field) => {
  expect(traceIdOf(field)).toBeUndefined()
})
