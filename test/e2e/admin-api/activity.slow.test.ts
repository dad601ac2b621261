import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { INTERVAL_MS, sampled } from '../../support/admin/sampled.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { loadOnAll, servingOn } from '../../support/workers/workers.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001

const BUNDLE = bundle(
  1,
  policy('p', { selector: { pathPrefix: '/p' }, rules: [bucketRule('r', ['header:x-k'], 4, HARDLY_ANY)] }),
  policy('q', { selector: { pathPrefix: '/q' }, rules: [bucketRule('r', ['header:x-k'], 1, HARDLY_ANY)] }),
  policy('s', { selector: { pathPrefix: '/s' }, mode: 'shadow', rules: [bucketRule('r', ['header:x-k'], 1, HARDLY_ANY)] }),
)

async function activity(port: number, query = '') {
  const { status, json } = await askAdmin(port, 'GET', `activity${query}`)
  expect(status).toBe(200)
  return json
}

const alice = [['X-K', 'alice']] as const

function decisionsIn(samples: readonly { allowed: number; rejected: number }[]): number {
  return samples.reduce((sum, { allowed, rejected }) => sum + allowed + rejected, 0)
}

describe('GET activity', () => {
  test('adds up all workers, and shows each', async () => {
    const cli = await servingOn(2, BUNDLE, ADMIN_ENV)
    const port = adminPortOf(cli)
    const load = await loadOnAll(cli.port, [['X-Original-Method', 'GET'], ['X-Original-URI', '/p'], ...alice], 8, port)
    // A worker that is busy for a second is left out.
    await until(async () => {
      const { workers } = await activity(port)
      const numbers = workers.filter(({ decisions, heap_bytes }: Record<string, number>) => decisions! > 0 && heap_bytes! > 0)
      return numbers.map(({ worker }: { worker: number }) => worker).join() === '1,2'
    })
    await load.stop()
    await expect.poll(async () => decisionsIn((await activity(port)).samples)).toBe(load.total)
  })

  test('a worker that is replaced makes no count fall', async () => {
    const mortal = await mortalEdge(1, { bundle: BUNDLE, env: ADMIN_ENV })
    await mortal.edge.decideTimes(6, { uri: '/p', fields: alice })
    mortal.age()
    await until(async () => (await activity(mortal.edge.adminPort)).samples.some(({ rejected }: { rejected: number }) => rejected === 2))
    await mortal.host.terminate(1)
    await mortal.untilReplaced()
    await mortal.edge.decideTimes(1, { uri: '/p', fields: alice })
    mortal.age()
    const { samples, workers } = await activity(mortal.edge.adminPort)
    expect(samples.at(-1)).toMatchObject({ allowed: 0, rejected: 1 })
    expect(workers).toMatchObject([{ decisions: 1 }])
  })
})

describe('GET activity', () => {
  test('a process that was suspended has one long sample, and nothing is ever negative', async () => {
    const { edge, clock, sample } = await sampled()
    await edge.decideTimes(2, { uri: '/p', fields: alice })
    await sample()
    await edge.decideTimes(2, { uri: '/p', fields: alice })
    clock.advance(300_000 - INTERVAL_MS)
    expect(await sample()).toMatchObject({ seconds: 300, allowed: 2 })
    expect((await activity(edge.adminPort)).samples).toHaveLength(2)
  })

  test('names the policies of the bundle, the busiest first, with what they decided in the last minute', async () => {
    const { edge, sample } = await sampled()
    const named = async () => {
      await sample()
      const { policies, busiest } = await activity(edge.adminPort)
      return [policies, busiest.map(({ policy, mode, allowed, rejected }: Record<string, unknown>) => [policy, mode, allowed, rejected])]
    }
    const idle = [
      ['p', 'enforce', 0, 0],
      ['q', 'enforce', 0, 0],
      ['s', 'shadow', 0, 0],
    ]
    expect(await named()).toEqual([3, idle])
    await edge.decideTimes(3, { uri: '/q', fields: alice })
    expect(await named()).toEqual([3, [['q', 'enforce', 1, 2], idle[0], idle[2]]])
    await edge.publish(bundle(2, policy('fresh', { rules: [] })))
    expect(await named()).toEqual([1, [['fresh', 'enforce', 0, 0]]])
  })

  test('is bounded with very many policies: the busiest are listed, and all are in the sums', async () => {
    const policies = Array.from({ length: 60 }, (_, i) => {
      return policy(`p${i}`, { selector: { pathPrefix: `/${i}` }, rules: [bucketRule('r', [], 1, HARDLY_ANY)] })
    })
    const { edge, sample } = await sampled({ bundle: bundle(1, ...policies) })
    for (let i = 0; i < 60; i++) await edge.decideTimes(i === 33 ? 5 : 2, { uri: `/${i}` })
    const { rejected, policies: listed } = await sample()
    expect(rejected).toBe(59 + 4)
    expect(listed.length).toBeLessThanOrEqual(18)
    expect(listed[0]).toEqual({ policy: 'p33', allowed: 1, rejected: 4, would_reject: 0 })
    const { busiest } = await activity(edge.adminPort)
    expect([busiest.length, busiest[0].policy]).toEqual([20, 'p33'])
  })

  test('lists those that reject, or would reject, most, however little they decide', async () => {
    const [lots, one] = [bucketRule('r', [], 100, HARDLY_ANY), bucketRule('r', [], 1, HARDLY_ANY)]
    const busy = Array.from({ length: 6 }, (_, i) => policy(`busy${i}`, { selector: { pathPrefix: `/${i}` }, rules: [lots] }))
    const strict = policy('strict', { selector: { pathPrefix: '/strict' }, rules: [one] })
    const trial = policy('trial', { selector: { pathPrefix: '/trial' }, mode: 'shadow', rules: [one] })
    const { edge, sample } = await sampled({ bundle: bundle(1, ...busy, strict, trial) })
    for (let i = 0; i < 6; i++) await edge.decideTimes(5, { uri: `/${i}` })
    for (const uri of ['/strict', '/trial']) await edge.decideTimes(2, { uri })
    const listed: { policy: string }[] = (await sample()).policies
    expect(listed.map((each) => each.policy).sort()).toEqual([...busy.map(({ id }) => id), 'strict', 'trial'])
  })

  test('has at most 450 samples, and those of the last minute name the busiest policies whatever the range', async () => {
    const { edge, clock } = await sampled()
    for (let look = 0; look < 500; look++) {
      clock.advance(10_000)
      if (look % 10 === 0) await activity(edge.adminPort, '?since=2026-01-15T00:00:00Z')
      else await activity(edge.adminPort, '?range=24h')
    }
    await edge.decideTimes(3, { uri: '/q', fields: alice })
    clock.advance(INTERVAL_MS)
    const { samples, busiest } = await activity(edge.adminPort, '?range=1h')
    expect(samples).toHaveLength(360)
    expect(busiest[0]).toMatchObject({ policy: 'q', rejected: 2 })
  })
})
