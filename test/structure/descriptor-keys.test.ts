import { describe, expect, test } from 'vitest'
import { DecisionLines } from '../../src/decision-log/decision-lines.ts'
import { isForwardingField } from '../../src/http1/field-name.ts'
import { readJsonLine } from '../../src/offline/replay/logs/json-line.ts'
import type { LoggedRequest } from '../../src/offline/replay/logs/logged-request.ts'
import {
  isCredential,
  isInBody,
  KEY_KINDS,
  KEY_PATTERN,
  type KeyKind,
  meantKey,
  parseDescriptorKey,
} from '../../src/policy/descriptor-key.ts'
import type { CallerVerdict } from '../../src/request/caller.ts'
import { TrustedProxies } from '../../src/request/client-address.ts'
import { Descriptors, type DescriptorValue, type RequestParts } from '../../src/request/descriptors.ts'
import { PlainRequestView, type RequestView } from '../../src/request/view.ts'
import { codeWords, readText, tableRows } from '../docs/markdown.ts'
import { bucketRule, bundle, jwt, policy } from '../support/bundles/bundles.ts'
import { planOf } from '../support/bundles/compiled-rule.ts'

/** One key of each form with its value in `REQUEST`. A new kind of key does not compile without a row. */
const SAMPLES: Readonly<Record<KeyKind, Readonly<Record<string, string>>>> = {
  bearer: { bearer: jwt({ sub: 'ada' }) },
  key: { 'llm:key': jwt({ sub: 'ada' }) },
  jwt: { 'jwt:sub': 'ada' },
  header: { 'header:x-key': 'alice' },
  query: { 'query:user': 'a b' },
  cookie: { 'cookie:sid': 's-1' },
  path: { 'path:2': 'acme' },
  context: { 'context:route': 'r1' },
  caller: { 'caller:id': 'okta:ada', 'caller:team': 'blue' },
  model: { 'llm:model': 'gpt-5' },
  ip: { 'ip:address': '203.0.113.7', 'ip:country': 'DE', 'ip:type': 'hosting', 'ip:tor': 'true' },
  descriptor: { 'descriptor:user': 'ada' },
}

const REQUEST = {
  method: 'GET',
  uri: '/v1/acme/x?user=a%20b',
  headers: {
    authorization: `Bearer ${SAMPLES.bearer['bearer']}`,
    'x-key': 'alice',
    cookie: 'sid=s-1',
    'x-forwarded-for': '203.0.113.7',
    'x-asn-type': 'hosting',
    'x-tor-exit': 'yes',
  },
}
const CALLER: CallerVerdict = { id: 'okta:ada', labels: new Map([['team', 'blue']]), claims: undefined }
const BODY = { promptTokens: 1, requestedTokens: 1, choices: 1, isStream: false, model: SAMPLES.model['llm:model']! }
const KINDS = Object.entries(KEY_KINDS) as [KeyKind, (typeof KEY_KINDS)[KeyKind]][]
/** All keys that a request can have. */
const SENT = KINDS.flatMap(([kind, { source }]) => (source === 'call' ? [] : Object.entries(SAMPLES[kind])))

describe('a kind of key is complete', () => {
  test.each(KINDS)('%s: there is a sample of every form, and the schema accepts it', (kind, { forms }) => {
    const samples = Object.keys(SAMPLES[kind])
    expect(samples.map(blank)).toEqual(forms.map(blank))
    for (const key of samples) {
      expect(parseDescriptorKey(key)?.kind).toBe(kind)
      expect(key).toMatch(new RegExp(KEY_PATTERN))
    }
  })

  test.each(SENT)('%s: a misspelling is recognized', (key) => {
    expect(meantKey(`${key[0]!.toUpperCase()}${key.slice(1)}`)).toBe(key)
  })

  test('the policy reference lists its forms, and no other', () => {
    const listed = tableRows(readText('docs/policy/keys.md'), ['Key', 'Value']).flatMap(([cell]) => codeWords(cell!))
    expect(listed.map(blank).sort()).toEqual(KINDS.flatMap(([, { forms }]) => forms.map(blank)).sort())
  })

  test.each(SENT)('%s: a request has its value', (key, value) => {
    expect(valueIn(key, sentRequest())).toBe(value)
  })

  test.each(SENT)('%s: a replay of the decision log reads the same, or a digest of a credential', (key, value) => {
    const again = valueIn(key, loggedRequest(key))
    if (isCredential(key)) expect(again).toEqual(expect.stringMatching(/\S/))
    expect(again === value).toBe(!isCredential(key))
  })

  const stated = SENT.filter(([key]) => KEY_KINDS[parseDescriptorKey(key)!.kind].source === 'proxies')

  test.each(stated)('%s: header fields that state it are believed from trusted peers alone', (key) => {
    const asked = new Set<string>()
    const view: RequestView = {
      method: 'GET',
      uri: '/',
      host: '',
      header(name) {
        asked.add(name)
        return undefined
      },
    }
    valueIn(key, view)
    expect(asked.size).toBeGreaterThan(0)
    expect([...asked].filter((name) => !isForwardingField(name))).toEqual([])
  })
})

/** A form or a key, without what a bundle puts after the colon. */
function blank(text: string): string {
  return /^(?:ip|llm):|^caller:id$/.test(text) ? text : text.replace(/:.*/, ':')
}

function sentRequest(): RequestView & Pick<LoggedRequest, 'caller'> {
  return Object.assign(new PlainRequestView(REQUEST), { caller: CALLER, context: (name: string) => (name === 'route' ? 'r1' : undefined) })
}

/** The request as `edge replay` reads it from the line that a bundle with this key alone makes `EDGE_DECISION_LOG` write. */
function loggedRequest(key: string): LoggedRequest {
  const callers = key.startsWith('caller:') && { callers: { keys: {} } }
  const plan = planOf({ ...bundle(1, policy('p', { rules: [bucketRule('r', [key], 1)] })), ...callers })
  const lines = new DecisionLines({ trustedProxies: new TrustedProxies(), callerDigest: () => 'digest' })
  const line = readJsonLine(lines.lineOf(plan, sentRequest(), BODY, Date.UTC(2026, 0, 1), CALLER))
  if (typeof line === 'string') throw new Error(line)
  return line
}

/** The model comes from the body, or from a field in which the line states it. */
function valueIn(text: string, view: RequestView & Pick<LoggedRequest, 'caller'>): DescriptorValue {
  const key = parseDescriptorKey(text)!
  const modelIn = (): DescriptorValue => (view instanceof PlainRequestView ? BODY.model : view.header('x-edge-model'))
  const parts: RequestParts = { path: view.uri.replace(/\?.*/, ''), model: isInBody(key) ? modelIn() : undefined }
  const descriptors = new Descriptors({ trustedProxies: new TrustedProxies(), ipFacts: { countryOf: () => 'DE' } }, parts)
  descriptors.begin(view, [key])
  if (view.caller !== undefined) descriptors.setCaller(view.caller, false)
  return descriptors.get(0)
}
