import { expect, test } from 'vitest'
import { readSecretText, readSecretVariables } from './secret-value.ts'

const LONGEST = 'x'.repeat(16 * 1024)

test.each([
  ['sk-a', 'sk-a'],
  ['sk-a\n', 'sk-a'],
  ['sk-a\r\n', 'sk-a'],
  ['two words', 'two words'],
  [`${LONGEST}\r\n`, LONGEST],
])('%j is the secret %j', (content, value) => {
  expect(readSecretText(Buffer.from(content))).toEqual({ value })
})

test.each([
  ['', 'is empty'],
  ['\n', 'is empty'],
  ['\r\n', 'is empty'],
  ['sk-a\n\n', 'contains a line break or another control character'],
  ['sk-a\r', 'contains a line break or another control character'],
  ['sk-a\nX-Admin: 1', 'contains a line break or another control character'],
  ['sk\ta', 'contains a line break or another control character'],
  ['sk-a\0', 'contains a line break or another control character'],
  ['sk\x7fa', 'contains a line break or another control character'],
  ['sk\x85a', 'contains a line break or another control character'],
  ['\ufeffsk-a', 'contains a character that is not ASCII, or begins with a byte order mark'],
  ['“sk-a”', 'contains a character that is not ASCII, or begins with a byte order mark'],
  [' sk-a', 'begins or ends with a space'],
  ['sk-a \n', 'begins or ends with a space'],
  [`${LONGEST}x`, 'has more than 16384 bytes'],
])('%j is no secret', (content, problem) => {
  expect(readSecretText(Buffer.from(content))).toEqual({ problem })
})

test('bytes that are no text are no secret', () => {
  expect(readSecretText(Buffer.from([0xff, 0xfe, 0x41]))).toHaveProperty('problem')
})

test('variables are secrets by the names that templates can have, and an empty one is unset', () => {
  const env = { EDGE_SECRET_A: 'a\n', EDGE_SECRET_B_2: 'b', EDGE_SECRET_C: '', EDGE_SECRET_d: 'd', EDGE_SECRET_: 'e', EDGE_SECRET_1: 'f' }
  const { secrets, problems } = readSecretVariables({ ...env, EDGE_SECRETS_DIR: '/s', EDGE_SECRET_DIR: '/s', XEDGE_SECRET_A: 'g' })
  expect(problems).toEqual([])
  expect([...secrets]).toEqual([
    ['A', 'a'],
    ['B_2', 'b'],
  ])
})

test('a variable that cannot be used is a problem without its value', () => {
  const { secrets, problems } = readSecretVariables({ EDGE_SECRET_A: 'hidden\nhidden', EDGE_SECRET_B: 'b' })
  expect([...secrets.keys()]).toEqual(['B'])
  expect(problems).toEqual([
    'EDGE_SECRET_A: expected a secret that fits into a header field, but it contains a line break or another control character',
  ])
})
