import { expect, test } from 'vitest'
import { planOf } from '../../../test/support/bundles/compiled-rule.ts'
import { routed } from '../../../test/support/bundles/routed-bundles.ts'
import { backendEntries, isCredentialField, isShownHeader } from './planned-backend.ts'

const OPENAI = {
  url: 'https://api.openai.com/base/',
  headers: { Authorization: 'Bearer {OPENAI_A}', 'openai-organization': 'org-{ORG} {{x}}', 'x-plain': '1' },
  headers_timeout_seconds: 1.5,
}

test('a backend has its base path, header templates and timeout', () => {
  const { backends } = planOf(routed([{ backends: [{ name: 'a' }] }], { a: OPENAI, b: { url: 'http://127.0.0.1:81' } })).routing!
  expect(backends.get('a')).toMatchObject({ name: 'a', basePath: '/base', headersTimeoutMs: 1500, hasCredential: true })
  expect(backends.get('a')!.headers.map(({ name, parts }) => [name, parts.names])).toEqual([
    ['authorization', ['OPENAI_A']],
    ['openai-organization', ['ORG']],
    ['x-plain', []],
  ])
  expect(backends.get('b')).toMatchObject({ basePath: '', headers: [], headersTimeoutMs: undefined, hasCredential: false })
  expect(backends.get('b')!.url.port).toBe('81')
})

test.each([
  ['a secret', { 'x-anything': '{KEY}' }, true],
  ['a credential in the bundle', { 'X-Api-Key': 'abc' }, true],
  ['other fields', { 'anthropic-version': '2023-06-01' }, false],
])('a backend with %s', (_what, headers, hasCredential) => {
  const plan = planOf(routed([{ backends: [{ name: 'a' }] }], { a: { url: 'https://a.example', headers } }))
  expect(plan.routing!.backends.get('a')).toMatchObject({ hasCredential })
})

test('the server learns where backends are', () => {
  expect(backendEntries({ a: OPENAI, b: { url: 'https://b.example' } })).toEqual([
    { name: 'a', url: OPENAI.url },
    { name: 'b', url: 'https://b.example' },
  ])
})

test('fields that carry credentials are known by their names', () => {
  const known = ['authorization', 'Cookie', 'x-api-key', 'api-key', 'X_Api_Key', 'x-goog-api-key', 'x-auth-token', 'proxy-authorization']
  expect(known.filter((name) => !isCredentialField(name))).toEqual([])
  expect(['openai-organization', 'anthropic-version', 'x-keyboard', 'user-agent'].filter(isCredentialField)).toEqual([])
})

test('a header text is shown if it is a reference, or its field carries no credentials', () => {
  expect(isShownHeader('authorization', 'Bearer {OPENAI_A}')).toBe(true)
  expect(isShownHeader('authorization', '{OPENAI_A}')).toBe(true)
  expect(isShownHeader('authorization', 'Bearer sk-{SUFFIX}')).toBe(false)
  expect(isShownHeader('x-api-key', 'sk-1')).toBe(false)
  expect(isShownHeader('anthropic-version', '2023-06-01')).toBe(true)
})
