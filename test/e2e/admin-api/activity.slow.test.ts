import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
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

describe('GET activity', () => {
  test('adds up all workers, and shows each', async () => {
    const cli = await servingOn(2, BUNDLE, ADMIN_ENV)
    const port = adminPortOf(cli)
    await loadOnAll(cli.port, [['X-Original-Method', 'GET'], ['X-Original-URI', '/p'], ...alice], 8, port)
    // A worker that is busy for a second is left out.
    let seen = await activity(port)
    await until(async () => {
      seen = await activity(port)
      return (
        seen.workers.length === 2 &&
        seen.workers.every(({ decisions, heap_bytes }: Record<string, number>) => decisions! > 0 && heap_bytes! > 0)
      )
    })
    const { workers, samples } = seen
    const last = samples.at(-1)
    expect(workers[0].decisions + workers[1].decisions).toBeLessThanOrEqual(last.allowed + last.rejected + 16)
    expect(workers.map(({ worker }: { worker: number }) => worker)).toEqual([1, 2])
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
