import { describe, expect, test } from 'vitest'
import { bundle } from '../../../test/support/bundles/bundles.ts'
import type { Problem } from '../../text/problem.ts'
import { parseBundle } from '../parse.ts'
import type { Bundle } from '../schema/bundle.ts'
import { forwardedTokens, openCredentials } from './open-credentials.ts'

const SECRET = { url: 'https://a.example', headers: { authorization: 'Bearer {OPENAI}' } }
const PLAIN = { url: 'https://b.example', headers: { 'x-region': 'eu' } }
const TO_A = { backends: [{ name: 'a' }] }
const KEYS = { keys: {} }

interface Parts {
  readonly callers?: object
  readonly backends?: object
  readonly routes?: readonly object[]
}

const openIn = (parts: Parts): string[] => said(openCredentials, parts)

function said(problemsOf: (bundle: Bundle) => Problem[], parts: Parts): string[] {
  const { backends = { a: SECRET, b: PLAIN }, routes = [{ ...TO_A, fallback: [{ name: 'b' }] }], callers } = parts
  const parsed = parseBundle(JSON.stringify({ ...bundle(1), backends, routes, ...(callers && { callers }) }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return problemsOf(parsed.bundle).map(({ path, message }) => `${path}: ${message}`)
}

describe('a credential is open', () => {
  test.each<[string, Parts, string]>([
    ['without callers', {}, ': add callers with mode: enforce, or write open: true in the backend'],
    ['where callers are only read', { callers: KEYS }, ': set mode: enforce in callers, or'],
    ['where callers are only watched', { callers: { mode: 'shadow', ...KEYS } }, ': set mode: enforce in callers, or'],
    ['whatever the field is called', { backends: { a: { ...SECRET, headers: { 'x-any': '{KEY}' } }, b: PLAIN } }, ': add callers'],
    ['where it is written out', { backends: { a: { ...SECRET, headers: { 'api-key': 'sk' } }, b: PLAIN } }, ': add callers'],
    ['as a fallback', { routes: [{ backends: [{ name: 'b' }], fallback: [{ name: 'a' }] }] }, ': add callers'],
    [
      'at an excepted path',
      { callers: { mode: 'enforce', ...KEYS, except_paths: ['/v1/models'] } },
      ' at /v1/models, which needs no caller',
    ],
    [
      'at one below an excepted path',
      { callers: { mode: 'enforce', ...KEYS, except_paths: ['/v1'] }, routes: [{ ...TO_A, selector: { pathExact: '/v1/x' } }] },
      ' at /v1, which needs no caller',
    ],
    [
      'at an excepted path that another route covers in part',
      {
        callers: { mode: 'enforce', ...KEYS, except_paths: ['/health'] },
        routes: [{ backends: [{ name: 'b' }], selector: { pathPrefix: '/health', methods: ['GET'] } }, TO_A],
      },
      ' at /health, which needs no caller',
    ],
  ])('%s', (_what, parts, text) => {
    const warnings = openIn(parts)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('backends.a: in reverse_proxy, anybody who reaches this port spends the credential of backend "a"')
    expect(warnings[0]).toContain(text)
  })
})

describe('a credential is not open', () => {
  test.each<[string, Parts]>([
    ['where every caller is verified', { callers: { mode: 'enforce', ...KEYS } }],
    ['where it is said to be', { backends: { a: { ...SECRET, open: true }, b: PLAIN } }],
    ['where its route is for verified callers', { callers: KEYS, routes: [{ ...TO_A, match: { 'caller:id': '*' } }] }],
    ['where no route names the backend', { routes: [{ backends: [{ name: 'b' }] }] }],
    [
      'where an earlier route has the excepted path',
      {
        callers: { mode: 'enforce', ...KEYS, except_paths: ['/health'] },
        routes: [{ backends: [{ name: 'b' }], selector: { pathPrefix: '/health' } }, TO_A],
      },
    ],
    [
      'where its route leaves out the excepted path',
      { callers: { mode: 'enforce', ...KEYS, except_paths: ['/health'] }, routes: [{ ...TO_A, selector: { exceptPaths: ['/health'] } }] },
    ],
    [
      'where the excepted path is elsewhere',
      { callers: { mode: 'enforce', ...KEYS, except_paths: ['/health'] }, routes: [{ ...TO_A, selector: { pathPrefix: '/v1' } }] },
    ],
  ])('%s', (_what, parts) => {
    expect(openIn(parts)).toEqual([])
  })
})

describe('tokens of callers', () => {
  const issuer = (...audiences: string[]) => ({
    name: audiences[0]!.replace(/\W/g, ''),
    issuer: `https://${audiences[0]}`,
    audiences,
    jwks_file: 'a',
  })
  const warned = (headers: object, { more = {}, jwt = [issuer('edge')] as readonly object[], url = 'https://a.example' } = {}): string[] =>
    said(forwardedTokens, { backends: { a: { url, headers, ...more } }, routes: [TO_A], callers: { jwt } })
  const AZURE = { 'api-key': '{AZURE}' }

  test('are reported to reach a backend that has a credential of its own', () => {
    expect(warned(AZURE)).toEqual([expect.stringMatching(/^backends\.a: .*tokens of callers.*forward_credentials: false/)])
    expect(warned({ 'x-custom': 'for {AZURE}' })).toHaveLength(1)
    expect(warned(AZURE, { jwt: [issuer('edge'), issuer('a.example')] })).toHaveLength(1)
    expect(warned(AZURE, { jwt: [issuer('https://b.example', '*.example')] })).toHaveLength(1)
  })

  test('are not where the bundle says so, where they do not arrive, and where there are none', () => {
    for (const forward_credentials of [true, false]) expect(warned(AZURE, { more: { forward_credentials } })).toEqual([])
    for (const headers of [
      {},
      { 'anthropic-version': '2023-06-01' },
      { ...AZURE, authorization: 'Bearer {A}' },
      { AUTHORIZATION: 'x {A}' },
    ])
      expect(warned(headers)).toEqual([])
    expect(said(forwardedTokens, { backends: { a: { ...SECRET, headers: AZURE } }, routes: [TO_A], callers: KEYS })).toEqual([])
    expect(said(forwardedTokens, { backends: { a: { ...SECRET, headers: AZURE } }, routes: [TO_A] })).toEqual([])
  })

  test('may reach their audience', () => {
    for (const audience of ['a.example', 'A.example', 'https://a.example', 'https://a.example/v1'])
      expect(warned(AZURE, { jwt: [issuer('other', audience)] })).toEqual([])
    expect(warned(AZURE, { jwt: [issuer('a.example:8443')], url: 'https://a.example:8443/v1' })).toEqual([])
  })
})
