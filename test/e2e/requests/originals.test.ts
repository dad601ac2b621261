import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { Edge } from '../../support/service/edge.ts'
import { exchange, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { decisionBytes, readAnswers } from '../../support/service/wire.ts'

const METHOD = ['X-Original-Method', 'GET'] as const
const URI = ['X-Original-URI', '/api'] as const
const HOST = ['X-Original-Host', 'a.example.com'] as const
const HOST_URI = ['X-Original-URI', '/by-host'] as const

const REFUSED: readonly (readonly [what: string, fields: Fields, reason: string])[] = [
  ['no field at all', [], 'missing_original_method'],
  ['no method', [URI], 'missing_original_method'],
  ['an empty method', [['X-Original-Method', ''], URI], 'missing_original_method'],
  ['a method of spaces', [['X-Original-Method', '   '], URI], 'missing_original_method'],
  ['no URI', [METHOD], 'missing_original_uri'],
  ['an empty URI', [METHOD, ['X-Original-URI', '']], 'missing_original_uri'],
  ['two methods', [METHOD, ['X-Original-Method', 'POST'], URI], 'repeated_original_method'],
  ['one method twice', [METHOD, METHOD, URI], 'repeated_original_method'],
  ['two URIs', [METHOD, URI, ['X-Original-URI', '/free']], 'repeated_original_uri'],
  ['two URIs, the first empty', [METHOD, ['X-Original-URI', ''], URI], 'repeated_original_uri'],
  ['two URIs in two spellings of the name', [METHOD, URI, ['x-original-uri', '/free']], 'repeated_original_uri'],
  ['two hosts', [METHOD, URI, HOST, ['X-Original-Host', 'b.example.com']], 'repeated_original_host'],
  ['two hosts where none is needed', [METHOD, ['X-Original-URI', '/free'], HOST, HOST], 'repeated_original_host'],
  ['no host where an enforcing policy needs one', [METHOD, HOST_URI], 'missing_original_host'],
  ['an empty host where one is needed', [METHOD, HOST_URI, ['X-Original-Host', '']], 'missing_original_host'],
  ['a host that is half a bracket', [METHOD, HOST_URI, ['X-Original-Host', '[']], 'missing_original_host'],
  ['a host of nothing but a port', [METHOD, HOST_URI, ['X-Original-Host', ':443']], 'missing_original_host'],
]

describe('X-Original-* that cannot be decided', () => {
  let edge: Edge
  beforeAll(async () => {
    const rules = [bucketRule('r', [], 100)]
    edge = await Edge.start({
      bundle: bundle(
        1,
        policy('api', { selector: { pathPrefix: '/api' }, rules }),
        policy('by-host', { selector: { pathPrefix: '/by-host', hosts: ['*.example.com'] }, rules }),
      ),
      clock: new ManualClock(),
    })
  })
  afterAll(() => edge.stop())

  test.each(REFUSED)('%s: 400, counted by its reason, and nothing is taken', async (_what, fields, reason) => {
    const refusals = await edge.metric(`edge_refused_requests_total{reason="${reason}"}`)
    const before = await remaining()
    const [answer] = readAnswers(await exchange(edge.port, decisionBytes(fields, { isLast: true })))
    expect(answer).toMatchObject({ status: 400, headers: { 'x-edge-reason': reason, 'content-length': '0' } })
    expect(answer!.headers).not.toHaveProperty('ratelimit')
    expect(await edge.metric(`edge_refused_requests_total{reason="${reason}"}`)).toBe(refusals + 1)
    expect(await remaining()).toBe(before - 1)
  })

  test('the same connection serves on after a 400', async () => {
    const bytes = Buffer.concat([decisionBytes([]), decisionBytes([METHOD, URI], { isLast: true })])
    expect(readAnswers(await exchange(edge.port, bytes)).map(({ status }) => status)).toEqual([400, 200])
  })

  test('a method that no policy knows, or in lower case, is decided', async () => {
    for (const method of ['get', 'PROPFIND', 'x', '__proto__', 'M-SEARCH', '🙈', 'G ET']) {
      expect((await edge.decide({ method: Buffer.from(method).toString('latin1'), uri: '/api' })).headers).toHaveProperty('ratelimit')
    }
  })

  test('hosts are compared by name, and what is no name counts as none', async () => {
    for (const host of ['a.example.com', 'A.Example.COM:8443', 'a.example.com.', 'b.a.example.com']) {
      expect((await edge.decide({ uri: '/by-host', host })).headers).toHaveProperty('ratelimit')
    }
    for (const host of ['example.com', '[::1]:80', '__proto__', 'constructor']) {
      const { status, headers } = await edge.decide({ uri: '/by-host', host })
      expect({ host, status, isLimited: 'ratelimit' in headers }).toEqual({ host, status: 200, isLimited: false })
    }
    const noNames = ['..', 'a b', 'x'.repeat(5000), '\xff', 'a.example.com..', 'a.example.com:80:80', 'a.example.com,b', 'a.'.repeat(8000)]
    for (const host of noNames) {
      const { status, headers } = await edge.decide({ uri: '/by-host', host })
      expect({ host, status, reason: headers['x-edge-reason'] }).toEqual({ host, status: 400, reason: 'missing_original_host' })
    }
  })

  async function remaining(): Promise<number> {
    return Number((await edge.decide({ uri: '/api' })).headers['ratelimit-remaining'])
  }
})

test('a shadow policy bound to hosts asks for no host', async () => {
  const edge = await Edge.start({
    bundle: bundle(1, policy('p', { mode: 'shadow', selector: { hosts: ['a.example.com'] }, rules: [bucketRule('r', [], 1)] })),
    clock: new ManualClock(),
  })
  expect(await edge.decideTimes(3)).toEqual([200, 200, 200])
  expect(await edge.decideTimes(3, { host: 'a.example.com' })).toEqual([200, 200, 200])
  expect(await edge.metric('edge_would_reject_total{policy="p",rule="r",reason="token_bucket_exceeded"}')).toBe(2)
  await edge.stop()
})
