import { expect, test } from 'vitest'
import { parseBundle } from '../policy/parse.ts'
import { credentialsIn, hasCredentials } from './credentials-in-text.ts'

const TEXT = `bundle_version: 1
metadata: { shared: &shared { X-Api-Key: "sk-1", x-region: eu } }
backends:
  a: { url: https://a.example, headers: *shared }
  b: { url: https://b.example, headers: *shared }
  c: { url: https://c.example, headers: { authorization: Bearer {SECRET}, api-key: "x-{SECRET}" } }
routes:
  - match: { bearer: [sk-3, sk-4], "header:x-tier": gold }
    backends: [{ name: a }]
policies: []
`.replace('Bearer {SECRET}', '"Bearer {SECRET}"')

test('credentials of backends and routes are found where they are written, and references to secrets are none', () => {
  expect(credentialsIn(TEXT, 'yaml').map(({ start, end, pattern }) => [TEXT.slice(start, end), pattern])).toEqual([
    ['sk-1', 'sk-1'],
    ['x-{SECRET}', 'x-{SECRET}'],
    ['sk-3', 'sk-3'],
    ['sk-4', 'sk-4'],
  ])
})

test.each([
  ['a header with a credential', { headers: { 'x-api-key': 'sk-1' } }, {}, true],
  ['a reference', { headers: { 'x-api-key': '{KEY}' } }, {}, false],
  ['a match on a token', {}, { match: { bearer: 'sk-1' } }, true],
  ['another match', {}, { match: { 'header:x-tier': 'gold' } }, false],
])('a bundle with %s', (_what, backend, route, has) => {
  const backends = { a: { url: 'https://a.example', ...backend } }
  const parsed = parseBundle(
    JSON.stringify({ bundle_version: 1, policies: [], backends, routes: [{ ...route, backends: [{ name: 'a' }] }] }),
  )
  expect(parsed.ok && hasCredentials(parsed.bundle)).toBe(has)
})
