import { describe, expect, type TestContext, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { decideRaw, WIRES } from '../../support/service/raw-decision.ts'
import { running } from '../../support/service/running.ts'

describe.concurrent.each(WIRES)('however a caller is spelled, there is one bucket, on %s', (_wire, isLast) => {
  test.for([
    ['query:key', '/?key=a&k%65y=a'],
    ['query:key', '/?key&key=a'],
    ['query:key', '/?key=a#b'],
  ] as const)('%s that comes twice or may be read in two ways is refused, and nothing is taken: %s', async ([key, uri], t) => {
    const edge = await limited(t, key)
    expect(await decideRaw(t, edge, uri, [], isLast)).toMatchObject({ status: 400, reason: 'repeated_descriptor' })
    expect((await decideRaw(t, edge, '/?key=a', [], isLast)).status).toBe(200)
  })
})

test.concurrent('a query of 20,000 parameters is read', async (t) => {
  const edge = await limited(t, 'query:key')
  // Within the bounds of a head.
  const many = `/?${'a&'.repeat(20_000)}key=a`
  expect([await status(many), await status(many), await status('/?key=a'), await status('/?key=b')]).toEqual([200, 429, 429, 200])

  async function status(uri: string): Promise<number> {
    return (await decideRaw(t, edge, uri, [], false)).status
  }
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
