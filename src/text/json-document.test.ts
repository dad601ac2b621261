import { expect, test } from 'vitest'
import { readRequestJson } from './json-document.ts'

const DEEP = { syntax: 'it has more than 16 levels of lists and objects' }

test.each([
  [`${'['.repeat(16)}${']'.repeat(16)}`, { value: JSON.parse(`${'['.repeat(16)}${']'.repeat(16)}`) as unknown }],
  [`${'['.repeat(17)}${']'.repeat(17)}`, DEEP],
  [`${'{"a":'.repeat(17)}1${'}'.repeat(17)}`, DEEP],
  ['['.repeat(65_536), DEEP],
  [`${'['.repeat(65_535)}}`, DEEP],
  [`["${'['.repeat(99)}","\\"${'{'.repeat(99)}"]`, { value: ['['.repeat(99), `"${'{'.repeat(99)}`] }],
  [`[${'[],'.repeat(99)}1]`, { value: JSON.parse(`[${'[],'.repeat(99)}1]`) as unknown }],
  ['"\\', { syntax: expect.stringContaining('not JSON') }],
  ['{"a":1,}', { syntax: 'not JSON: unexpected "}" at line 1, column 8', line: 1, column: 8 }],
  ['{"a":1,"a":2}', { syntax: expect.stringContaining('"a" occurs twice') }],
])('reads JSON of a request, which may be hostile: %.40s', (text, expected) => {
  expect(readRequestJson(text)).toMatchObject(expected)
})

test('does not look for the place of a mistake in a long text, which would parse it many times', () => {
  expect(readRequestJson(`[${'{},'.repeat(20_000)}!`)).toEqual({ syntax: 'not JSON' })
})
