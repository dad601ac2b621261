import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { blockRule, bucketRule, bundle, concurrencyRule, llmRule, policy, windowRule } from '../../support/bundles/bundles.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { original } from '../../support/service/wire.ts'
import { until } from '../../support/until.ts'
import { mortalEdge } from '../../support/workers/mortal-edge.ts'
import { loadOnAll, servingOn, type Workers } from '../../support/workers/workers.ts'

const WORKERS = 2
const LANES = 16
/** So few tokens a second that none comes back while the test runs. */
const HARDLY_ANY = 0.0001

/** A day may end while the test runs; what the minute has hardly comes back. */
const TOKENS = { tokens_per_day: 10_000, tokens_per_minute: 1, burst_tokens: 10_000 }

const BUNDLE = bundle(
  1,
  policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('per-key', ['header:x-k'], 10, HARDLY_ANY)] }),
  policy('window', { selector: { pathPrefix: '/window' }, rules: [windowRule('a-year', ['header:x-k'], { limit: 10, period: '1y' })] }),
  policy('llm', { selector: { pathPrefix: '/llm' }, rules: [llmRule('tokens', ['header:x-k'], TOKENS)] }),
  policy('held', { selector: { pathPrefix: '/held' }, rules: [concurrencyRule('three', ['header:x-k'], 3, 3600)] }),
  policy('closed', { selector: { pathPrefix: '/closed' }, rules: [blockRule('closed')] }),
)

describe('an override on two workers', () => {
  const suite = thisSuite()
  let cli: Workers
  let operator: Operator
  beforeAll(async () => {
    cli = await servingOn(WORKERS, BUNDLE, ADMIN_ENV, suite)
    operator = new Operator(adminPortOf(cli))
  })
  const decide = (caller: string, path = '/api'): Promise<Answer> => ask(cli.port, 'POST', '/v1/decision', original(path, ['X-K', caller]))
  /** How many are allowed, until one is not, of those that come on connections of their own, to whatever worker. */
  const allowed = async (caller: string, path = '/api'): Promise<number> => {
    let count = 0
    for (;;) {
      const statuses = (await Promise.all(Array.from({ length: 8 }, () => decide(caller, path)))).map(({ status }) => status)
      count += statuses.filter((status) => status === 200).length
      if (statuses.includes(429)) return count
    }
  }
  /** The statuses that callers on all workers get from now on. */
  const statusesOnAll = async (caller: string, path = '/api'): Promise<number[]> => {
    const load = await loadOnAll(cli.port, original(path, ['X-K', caller]), LANES)
    await load.stop()
    expect(load.errors).toEqual([])
    return [...load.statuses.keys()].sort()
  }

  test.each([
    ['/api', { policy: 'api', rule: 'per-key' }, 10, 20],
    ['/window', { policy: 'window', rule: 'a-year' }, 10, 20],
    ['/llm', { policy: 'llm', rule: 'tokens' }, 10, 20],
    ['/held', { policy: 'held', rule: 'three' }, 3, 6],
  ] as const)(
    'lifts a customer who gets 429: what was spent stays spent of three times the limit (%s)',
    async (path, subject, limit, more) => {
      expect(await allowed('customer', path)).toBe(limit)
      const { id } = await operator.override({ ...subject, values: { 'header:x-k': 'customer' }, multiply: 3 })
      expect(await allowed('customer', path)).toBe(more)
      expect(await allowed('somebody else', path)).toBe(limit)
      await operator.end(id)
      expect((await decide('customer', path)).status).toBe(429)
    },
  )

  test('sets limits for all callers, and one for a caller wins over it', async () => {
    const all = await operator.override({ policy: 'api', rule: 'per-key', all: true, set: { burst: 4 } })
    const values = { 'header:x-k': 'favoured' }
    const one = await operator.override({ policy: 'api', rule: 'per-key', values, set: { burst: 7 } })
    expect([await allowed('anybody'), await allowed('favoured')]).toEqual([4, 7])
    await operator.end(one.id)
    await operator.end(all.id)
    expect(await allowed('anybody else')).toBe(10)
  })

  test('takes the place of another one without a gap', async () => {
    const raise = { policy: 'api', rule: 'per-key', values: { 'header:x-k': 'raised' } }
    const first = await operator.override({ ...raise, set: { burst: 1000 } })
    const replacing = operator.override({ ...raise, set: { burst: 2000 }, replace: first.id })
    let [taken, isReplaced] = [0, false]
    void replacing.finally(() => {
      isReplaced = true
    })
    // If the limit of the bundle held for a moment, the level would be cut to 10.
    for (; !isReplaced; taken++) expect((await decide('raised')).status).toBe(200)
    const { status, headers } = await decide('raised')
    expect([status, Number(headers['ratelimit-remaining'])]).toEqual([200, 2000 - taken - 1])
    await operator.end((await replacing).id)
    expect((await decide('raised')).headers['ratelimit-remaining']).toBe('9')
  })

  test('blocks, and limits nothing, in all threads, until an operator ends it', async () => {
    const values = { 'header:x-k': 'odd one' }
    const block = await operator.override({ policy: 'api', rule: 'per-key', values, block: true })
    expect(await statusesOnAll('odd one')).toEqual([403])
    expect(await decide('odd one')).toMatchObject({ status: 403, headers: { 'x-edge-reason': 'blocked' } })
    expect((await decide('another')).status).toBe(200)
    const unlimited = await operator.override({ policy: 'api', rule: 'per-key', values, unlimited: true, replace: block.id })
    expect(await statusesOnAll('odd one')).toEqual([200])
    await operator.end(unlimited.id)
    // Neither of them took anything.
    expect(await allowed('odd one')).toBe(10)
    const open = await operator.override({ policy: 'closed', rule: 'closed', all: true, unlimited: true })
    expect(await statusesOnAll('anybody', '/closed')).toEqual([200])
    await operator.end(open.id)
    expect(await statusesOnAll('anybody', '/closed')).toEqual([403])
  })

  test('stops all enforcement (shadow_all), in all threads', async () => {
    expect(await allowed('spent')).toBe(10)
    const { id } = await operator.override({ shadow_all: true })
    expect(await statusesOnAll('spent')).toEqual([200])
    expect(await statusesOnAll('anybody', '/closed')).toEqual([200])
    expect((await decide('spent')).headers).not.toHaveProperty('ratelimit')
    await operator.end(id)
    expect(await statusesOnAll('spent')).toEqual([429])
    expect(await statusesOnAll('anybody', '/closed')).toEqual([403])
  })

  test('is gone by itself', async () => {
    const values = { 'header:x-k': 'for a moment' }
    const { id, until: end } = await operator.override({ policy: 'api', rule: 'per-key', values, block: true, until: '1s' })
    const { status } = await decide('for a moment')
    // A machine that is busy enough is too late for it.
    if (new Date().toISOString() < (end as string)) expect(status).toBe(403)
    await until(async () => (await decide('for a moment')).status === 200)
    expect(await statusesOnAll('for a moment')).not.toContain(403)
    expect(await operator.overrides()).toEqual([])
    await until(() => cli.logged('override_ended').some((line) => line.id === id && line.why === 'over'))
  })
})

test('a worker that takes the place of a dead one has the overrides before it serves', async () => {
  const mortal = await mortalEdge(WORKERS, { bundle: BUNDLE, env: ADMIN_ENV })
  const operator = new Operator(mortal.edge.adminPort)
  await operator.override({ policy: 'api', rule: 'per-key', all: true, block: true })
  for (let worker = 1; worker <= WORKERS; worker++) {
    await mortal.host.terminate(worker)
    await mortal.untilReplaced(worker)
  }
  const load = await loadOnAll(mortal.port, original('/api', ['X-K', 'anybody']), LANES)
  await load.stop()
  expect([...load.statuses.keys()]).toEqual([403])
})
