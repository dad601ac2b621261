import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend, type SeenRequest } from '../../support/proxy/backend.ts'
import { askRaw, pairs, proxying, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'

/** Loopback, from which all tests come, is nobody then. */
const UNTRUSTED = { EDGE_TRUSTED_PROXIES: '192.0.2.0/24' }

const CLAIMS = [
  'X-Forwarded-For: 198.51.100.7, 10.0.0.1',
  'X-Forwarded-Host: shop.example.com',
  'X-Forwarded-Proto: https',
  'X-Forwarded-Port: 443',
  'X-Forwarded-Prefix: /shop',
  'Forwarded: for=198.51.100.7',
  'X-ASN-Type: hosting',
  'X-Tor-Exit: 1',
  'X-Real-IP: 198.51.100.7',
]

const RESPELLED = [
  ...['X_Forwarded_For', 'x_forwarded-for', 'X-Forwarded_For', 'X.Forwarded.For', 'X~Forwarded|For', 'X_FORWARDED_FOR'],
  ...['X_Forwarded_Host', 'X-Forwarded.Proto', 'X_Forwarded_Port', "X'Forwarded-Anything", 'X_Forwarded', 'X-Forwarded'],
  ...['X_Real_IP', 'X-Real_Ip', 'x!real!ip', 'FORWARDED', 'X_ASN_Type', 'X-ASN.Type', 'X_Tor_Exit', 'X-Tor_Exit'],
].map((name) => `${name}: 198.51.100.7`)

describe('a trusted peer', () => {
  test('is believed, and adds itself', async () => {
    const { headers } = await forwarded({}, CLAIMS)
    expect(headers).toMatchObject({
      'x-forwarded-for': '198.51.100.7, 10.0.0.1, 127.0.0.1',
      'x-forwarded-host': 'shop.example.com',
      'x-forwarded-proto': 'https',
      'x-forwarded-port': '443',
      'x-forwarded-prefix': '/shop',
      forwarded: 'for=198.51.100.7',
      'x-asn-type': 'hosting',
      'x-tor-exit': '1',
      'x-real-ip': '198.51.100.7',
    })
  })

  test('that says nothing is the client', async () => {
    expect((await forwarded({}, [])).headers).toMatchObject({
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-host': 'a',
      'x-forwarded-proto': 'http',
    })
  })

  test('whose chain comes in pieces is passed on whole, in one field', async () => {
    const { rawHeaders } = await forwarded({}, ['X-Forwarded-For: 192.0.2.1', 'X-A: b', 'x-forwarded-for: 192.0.2.2, 192.0.2.3'])
    const values = rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === 'x-forwarded-for')
    expect(values).toEqual(['192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1'])
  })

  test('keeps limits on the client behind it', async () => {
    const edge = await limitedByAddress({})
    expect(await statuses(edge, ['192.0.2.1', '192.0.2.1', '192.0.2.2', '6.6.6.6, 192.0.2.1'])).toEqual([200, 429, 200, 429])
  })
})

describe('an untrusted peer', () => {
  test('is not believed: what it says of others is replaced or dropped', async () => {
    const { headers } = await forwarded(UNTRUSTED, CLAIMS)
    expect(headers).toMatchObject({ 'x-forwarded-for': '127.0.0.1', 'x-forwarded-host': 'a', 'x-forwarded-proto': 'http' })
    for (const name of ['x-forwarded-port', 'x-forwarded-prefix', 'forwarded', 'x-asn-type', 'x-tor-exit', 'x-real-ip']) {
      expect(headers).not.toHaveProperty(name)
    }
  })

  test('is not believed in any spelling that a CGI-style backend reads as the same field', async () => {
    const { rawHeaders } = await forwarded(UNTRUSTED, RESPELLED)
    const variables = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => `HTTP_${name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`)
    expect(variables.filter((name) => /FORWARDED|REAL_IP|ASN|TOR/.test(name)).toSorted()).toEqual([
      'HTTP_X_FORWARDED_FOR',
      'HTTP_X_FORWARDED_HOST',
      'HTTP_X_FORWARDED_PROTO',
    ])
    expect(rawHeaders.join('\n')).not.toContain('198.51.100.7')
  })

  test('may send what only looks like it', async () => {
    const lines = ['X-Forwardedness: 1', 'Forwarded-By: 2', 'X-Real-IPs: 3', 'X_Under_Score: 4', 'x.dotted: 5', 'F: 6', 'X: 7']
    const { rawHeaders } = await forwarded(UNTRUSTED, lines)
    expect(pairs(rawHeaders).map((pair) => pair.join(': '))).toEqual(expect.arrayContaining(lines))
  })

  test('cannot change its bucket', async () => {
    const edge = await limitedByAddress(UNTRUSTED)
    expect(await statuses(edge, ['192.0.2.1', '192.0.2.2', '198.51.100.1'])).toEqual([200, 429, 429])
  })

  test('cannot name its kind of network, nor deny Tor', async () => {
    const rules = [
      bucketRule('type', ['ip:type'], 1),
      bucketRule('tor', ['ip:tor'], 1),
      bucketRule('header', ['header:x-forwarded-proto'], 1),
    ]
    const backend = await HttpBackend.start()
    for (const [env, expected] of [
      [{}, 429],
      [UNTRUSTED, 200],
    ] as const) {
      const edge = await proxying(backend, { env, clock: new ManualClock(), bundle: bundle(1, policy('p', { rules })) })
      for (const line of ['X-ASN-Type: hosting', 'X-Tor-Exit: 1', 'X-Forwarded-Proto: https']) {
        const request = `GET / HTTP/1.1\r\nHost: a\r\n${line}\r\nConnection: close\r\n\r\n`
        await askRaw(edge.port, request)
        const { status } = await askRaw(edge.port, request)
        expect([line, status]).toEqual([line, expected])
      }
    }
  })

  test('over IPv6 is written as it is', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend, { env: { EDGE_HOST: '::' } })
    // Seen as ::ffff:127.0.0.1 by a socket that speaks both.
    await askRaw(edge.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    expect(backend.only.headers['x-forwarded-for']).toBe('127.0.0.1')
    const { headers } = await (await fetch(`http://[::1]:${edge.port}/`)).blob().then(() => backend.seen[1]!)
    expect(headers).toMatchObject({ 'x-forwarded-for': '::1', 'x-forwarded-host': `[::1]:${edge.port}` })
  })
})

async function forwarded(env: Readonly<Record<string, string>>, lines: readonly string[]): Promise<SeenRequest> {
  const backend = await HttpBackend.start()
  const edge = await proxying(backend, { env })
  const answer = await askRaw(edge.port, `GET / HTTP/1.1\r\nHost: a\r\n${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`)
  expect(valuesOf(answer, 'X-Forwarded-For')).toEqual([])
  return backend.only
}

async function limitedByAddress(env: Readonly<Record<string, string>>): Promise<Edge> {
  const rules = [bucketRule('ip', ['ip:address'], 1)]
  return proxying(await HttpBackend.start(), { env, clock: new ManualClock(), bundle: bundle(1, policy('p', { rules })) })
}

async function statuses(edge: Edge, chains: readonly string[]): Promise<number[]> {
  const found: number[] = []
  for (const chain of chains) found.push((await edge.get('/', [['X-Forwarded-For', chain]])).status)
  return found
}
