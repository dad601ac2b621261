import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { RawClient, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { decisionBytes, original } from '../../support/service/wire.ts'

/** query:, cookie:, path: and llm:model keys of questions. A connection that is to be closed is for the slow wire. */
const WIRES = [
  ['the fast wire', false],
  ['the slow wire', true],
] as const

type Spelling = readonly [uri: string, ...fields: Fields]

/** Each with spellings of one caller, and another caller. */
const SPELLINGS: readonly (readonly [key: string, spellings: readonly Spelling[], other: Spelling])[] = [
  ['query:key', uris('/?key=abc', '/?key=%61bc', '/?%6bey=a%62c', '/x?y=1&key=abc&z', 'http://h/?key=abc', '/?key=abc&#'), ['/?key=abd']],
  ['query:key', uris('/?key=a+b', '/?key=a%20b', '/?key=%61+b'), ['/?key=a%2Bb']],
  ['query:key', uris('/?key=%C3%A9', '/?key=%c3%a9', '/?key=\xc3\xa9'), ['/?key=e']],
  [
    'cookie:sid',
    [
      ['/', ['Cookie', 'sid=abc']],
      ['/', ['Cookie', 'sid="abc"']],
      ['/', ['Cookie', 'x=1;sid=abc;y=2']],
      ['/', ['Cookie', 'x=1'], ['cookie', 'sid=abc']],
      ['/', ['COOKIE', 'sid = abc ; Sid=z']],
      ['/', ['Cookie', 'sid=%61bc']],
    ],
    ['/', ['Cookie', 'sid=abd']],
  ],
  ['path:2', uris('/t/acme', '/t/acme/x?y', '//t/./acme/', '/t/%61cme', '/x/../t/acme#f', 'http://h/t/acme'), ['/t/other']],
]

describe.concurrent.each(WIRES)('however a caller is spelled, there is one bucket, on %s', (_wire, isLast) => {
  test.for(SPELLINGS)('%s', async ([key, spellings, other], t) => {
    const edge = await limited(t, key)
    const statuses: number[] = []
    for (const [uri, ...fields] of spellings) statuses.push((await decide(t, edge, uri, fields, isLast)).status)
    expect(statuses).toEqual([200, ...spellings.slice(1).map(() => 429)])
    const [uri, ...fields] = other
    expect((await decide(t, edge, uri, fields, isLast)).status).toBe(200)
  })

  test.for([
    ['query:key', '/?key=a&key=b'],
    ['query:key', '/?key=a&k%65y=a'],
    ['query:key', '/?key&key=a'],
    ['query:key', '/?key=a#b'],
  ] as const)('%s that comes twice or may be read in two ways is refused, and nothing is taken: %s', async ([key, uri], t) => {
    const edge = await limited(t, key)
    expect(await decide(t, edge, uri, [], isLast)).toEqual({ status: 400, reason: 'repeated_descriptor' })
    expect((await decide(t, edge, '/?key=a', [], isLast)).status).toBe(200)
  })

  test.for([
    ['query:key', '/?key=&x=1'],
    ['query:key', '/?KEY=a'],
    ['cookie:sid', '/'],
    ['path:3', '/a/b/'],
    ['llm:model', '/v1/chat/completions'],
  ] as const)('%s is missing in %s: the rule is skipped, and the key counted', async ([key, uri], t) => {
    const edge = await limited(t, key)
    for (let i = 0; i < 3; i++) expect((await decide(t, edge, uri, [['Cookie', 'sid=; Sid=a']], isLast)).status).toBe(200)
    expect(await edge.metric(`edge_descriptor_missing_total{key="${key}"}`)).toBe(3)
  })
})

test.concurrent('a query of 20,000 parameters is read', async (t) => {
  const edge = await limited(t, 'query:key')
  // Within the bounds of a head.
  const many = `/?${'a&'.repeat(20_000)}key=a`
  expect([await status(many), await status(many), await status('/?key=a'), await status('/?key=b')]).toEqual([200, 429, 429, 200])

  async function status(uri: string): Promise<number> {
    return (await decide(t, edge, uri, [], false)).status
  }
})

test.concurrent('in shadow mode a policy is left out for what comes twice, and no response changes', async (t) => {
  const rules = [bucketRule('all', [], 1), bucketRule('r', ['query:key', 'cookie:sid'], 1)]
  const edge = await running({ bundle: bundle(1, policy('s', { mode: 'shadow', rules })), clock: new ManualClock() }, t)
  for (let i = 0; i < 2; i++) expect((await decide(t, edge, '/?key=a&key=b', [], false)).status).toBe(200)
  for (let i = 0; i < 2; i++) expect((await decide(t, edge, '/', [['Cookie', 'sid=a; sid=b']], false)).status).toBe(200)
  const wouldReject = 'edge_would_reject_total{policy="s",rule="all",reason="token_bucket_exceeded"}'
  expect(await edge.metric(wouldReject)).toBe(0)
  for (let i = 0; i < 2; i++) await decide(t, edge, '/?key=a', [['Cookie', 'sid=a']], false)
  expect(await edge.metric(wouldReject)).toBe(1)
})

test.concurrent('a debug session shows the values, made safe', async (t) => {
  const rules = [bucketRule('r', ['query:ké y', 'cookie:sid', 'path:2'], 5)]
  const env = { EDGE_DEBUG_SESSION_SECRET: 'a secret for tests' }
  const edge = await running({ bundle: bundle(1, policy('p', { rules })), clock: new ManualClock(), env }, t)
  const login = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', env.EDGE_DEBUG_SESSION_SECRET]])
  const cookie = `${login.headers['set-cookie']!.split(';')[0]!}; sid="a%0Ab"`
  const { headers } = await edge.decide({ uri: '/x/%63af%c3%a9?k%C3%A9+y=%F0%9F%98%80%0d%0aX:1', fields: [['Cookie', cookie]] })
  const shown = [1, 2, 3].map((n) => [headers[`x-edge-debug-descriptor-${n}-key`], headers[`x-edge-debug-descriptor-${n}-value`]])
  expect(shown).toEqual([
    ['query:k\xe9 y', '????X:1'],
    ['cookie:sid', 'a?b'],
    ['path:2', 'caf%C3%A9'],
  ])
})

function limited(t: TestContext, key: string): Promise<Edge> {
  return running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [key], 1)] })), clock: new ManualClock() }, t)
}

function uris(...list: readonly string[]): Spelling[] {
  return list.map((uri) => [uri])
}

async function decide(t: TestContext, edge: Edge, uri: string, fields: Fields, isLast: boolean) {
  const client = RawClient.connect(edge.port, t)
  client.send(decisionBytes(original(uri, ...fields), { isLast }))
  const answer = await client.next()
  return { status: answer.status, reason: valuesOf(answer, 'x-edge-reason')[0] }
}
