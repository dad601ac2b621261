import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { decideRaw, WIRES } from '../../support/service/raw-decision.ts'
import { running } from '../../support/service/running.ts'

/** query:, cookie:, path: and llm:model keys of questions. */
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
    for (const [uri, ...fields] of spellings) statuses.push((await decideRaw(t, edge, uri, fields, isLast)).status)
    expect(statuses).toEqual([200, ...spellings.slice(1).map(() => 429)])
    const [uri, ...fields] = other
    expect((await decideRaw(t, edge, uri, fields, isLast)).status).toBe(200)
  })

  test.for([['query:key', '/?key=a&key=b']] as const)(
    '%s that comes twice or may be read in two ways is refused, and nothing is taken: %s',
    async ([key, uri], t) => {
      const edge = await limited(t, key)
      expect(await decideRaw(t, edge, uri, [], isLast)).toMatchObject({ status: 400, reason: 'repeated_descriptor' })
      expect((await decideRaw(t, edge, '/?key=a', [], isLast)).status).toBe(200)
    },
  )

  test.for([
    ['query:key', '/?key=&x=1'],
    ['query:key', '/?KEY=a'],
    ['cookie:sid', '/'],
    ['path:3', '/a/b/'],
    ['llm:model', '/v1/chat/completions'],
  ] as const)('%s is missing in %s: the rule is skipped, and the key counted', async ([key, uri], t) => {
    const edge = await limited(t, key)
    for (let i = 0; i < 3; i++) expect((await decideRaw(t, edge, uri, [['Cookie', 'sid=; Sid=a']], isLast)).status).toBe(200)
    expect(await edge.metric(`edge_descriptor_missing_total{key="${key}"}`)).toBe(3)
  })
})

test.concurrent('in shadow mode a policy is left out for what comes twice, and no response changes', async (t) => {
  const rules = [bucketRule('all', [], 1), bucketRule('r', ['query:key', 'cookie:sid'], 1)]
  const edge = await running({ bundle: bundle(1, policy('s', { mode: 'shadow', rules })), clock: new ManualClock() }, t)
  for (let i = 0; i < 2; i++) expect((await decideRaw(t, edge, '/?key=a&key=b', [], false)).status).toBe(200)
  for (let i = 0; i < 2; i++) expect((await decideRaw(t, edge, '/', [['Cookie', 'sid=a; sid=b']], false)).status).toBe(200)
  const wouldReject = 'edge_would_reject_total{policy="s",rule="all",reason="token_bucket_exceeded"}'
  expect(await edge.metric(wouldReject)).toBe(0)
  for (let i = 0; i < 2; i++) await decideRaw(t, edge, '/?key=a', [['Cookie', 'sid=a']], false)
  expect(await edge.metric(wouldReject)).toBe(1)
})

function limited(t: TestContext, key: string): Promise<Edge> {
  return running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [key], 1)] })), clock: new ManualClock() }, t)
}

function uris(...list: readonly string[]): Spelling[] {
  return list.map((uri) => [uri])
}
