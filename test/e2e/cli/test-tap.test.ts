import { expect, test } from 'vitest'
import { bucketRule, bundle, matching, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { parseTap } from '../../support/cases/tap.ts'
import { tested } from '../../support/cases/tested.ts'

const BUNDLE = bundle(
  1,
  policy('p #1', { rules: [matching({ 'header:x-k': '*' }, bucketRule('r: [', ['header:x-k'], 1)), unlimitedRule('others', 'else')] }),
)

test('each case is a test point; one that fails has its diagnostics as YAML', async () => {
  const good = { name: 'holds', steps: [{ request: { uri: '/' }, expect: { status: 200 } }] }
  const bad = {
    name: 'fails',
    steps: [good.steps[0], { after: '2s', request: { uri: '/a', headers: { 'x-k': 'v' } }, times: 2, expect: { status: 200 } }],
  }
  const said = await tested(BUNDLE, [good, bad], '--tap')
  expect(said).toMatchObject({ status: 1, stderr: '' })
  const [first, second] = parseTap(said.stdout)
  expect(first).toEqual({ isOk: true, description: 'cases.yaml: holds', diagnostics: undefined })
  expect(second).toMatchObject({ isOk: false, description: 'cases.yaml: fails' })
  expect(second!.diagnostics).toEqual({
    message: 'Rule r: [ of policy p #1 rejects it. header:x-k=v has 0 of 1 left, and this request takes 1. It would pass in 1 s.',
    severity: 'fail',
    at: { file: expect.stringContaining('cases.yaml'), line: 1 },
    step: 2,
    request: { number: 2, of: 2, method: 'GET', uri: '/a', time: '2026-01-01T00:00:02.000Z' },
    mismatches: [{ what: 'status', expected: '200', got: '200, 429' }],
    response: { status: 429, reason: 'token_bucket_exceeded', policy: 'p #1', rule: 'r: [' },
  })
})

test('all hold: status 0', async () => {
  const { status, stdout } = await tested(BUNDLE, [{ name: 'a', steps: [{ request: { uri: '/' }, expect: { status: 200 } }] }], '--tap')
  expect({ status, stdout }).toEqual({ status: 0, stdout: 'TAP version 14\n1..1\nok 1 - cases.yaml: a\n' })
})

test('names cannot be taken for directives, ends of lines or ends of blocks', async () => {
  const names = ['a # TODO later', 'b \\# SKIP', 'c\nnot ok 9', '...', '---', 'd\u2028e\u0085f\r', '\u001b[2J', '1..0', 'ok 1', '\\']
  const request = { uri: '/', headers: { 'x-k': '...\u2028' } }
  const cases = names.map((name) => ({ name, steps: [{ request, times: 2, expect: { status: 200 } }] }))
  const { stdout } = await tested(BUNDLE, cases, '--tap')
  const points = parseTap(stdout)
  expect(points.map(({ description }) => description.replace('cases.yaml: ', ''))).toEqual(
    names.map((name) => name.replace(/[\p{Cc}\u2028]/gu, (text) => `\\u${text.charCodeAt(0).toString(16).padStart(4, '0')}`)),
  )
  expect(points.every(({ isOk, diagnostics }) => !isOk && diagnostics !== undefined)).toBe(true)
})

test('what cannot be run is bailed out of', async () => {
  const { status, stdout, stderr } = await tested(BUNDLE, '- name: 3', '--tap')
  expect({ status, stdout }).toEqual({
    status: 1,
    stdout: 'TAP version 14\nBail out! the bundle or the cases cannot be used, see standard error\n',
  })
  expect(stderr).toContain('cases.yaml:1:3: error: [0].name: expected a text of 1 to 200 characters, got 3')
})
