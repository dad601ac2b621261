import { expect, test } from 'vitest'
import { type AdminResponse, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy, windowRule } from '../support/bundles/bundles.ts'
import { operatedFleets } from '../support/fleet/operated-fleets.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import { proxyEnv } from '../support/proxy/proxy.ts'
import type { RedisServer } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { admitted, HARDLY_ANY } from '../support/redis/sharing-edge.ts'
import { gateTo } from '../support/redis/tcp-gate.ts'
import type { Edge } from '../support/service/edge.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { until } from '../support/until.ts'

const BURST = 10
const RULES = bundle(
  1,
  policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('key', ['header:x-key'], BURST, HARDLY_ANY)] }),
  policy('day', { selector: { pathPrefix: '/day' }, rules: [windowRule('key', ['header:x-key'], { limit: BURST, period: '1d' })] }),
  policy('login', { selector: { pathPrefix: '/login' }, rules: [bucketRule('token', ['bearer'], BURST, HARDLY_ANY)] }),
)
const LEASED = { EDGE_REDIS_MODE: 'leased', EDGE_REDIS_LEASE_MS: '500' }
const ALICE = { policy: 'api', rule: 'key', values: { 'header:x-key': 'alice' } }
const WHY = { until: '1h', reason: 'a test' }

describeWithRedis('an override on one instance of a fleet', () => {
  let redis: RedisServer
  const fleet = operatedFleets(RULES, (started) => {
    redis = started
  })

  test.concurrent.for([
    ['exact', {}],
    ['leased', LEASED],
  ] as const)('adds the difference once, whoever is asked (%s)', async ([, env], owner) => {
    const { instance } = fleet(owner)
    const [one, other] = await Promise.all([instance(env), instance(env)])
    await usedUp(one, other)
    expect(await set(one, { ...ALICE, multiply: 3 })).toMatchObject({ status: 201, json: { durable: true, in_force: true } })
    const passed = await untilAdmitted(other)
    const rest = [...(await decide(one, 2 * BURST)), ...(await decide(other, 2 * BURST))]
    expect(passed + admitted(rest)).toBe(2 * BURST)
  })

  test.concurrent('of a window leaves what was used used', async (owner) => {
    const { instance } = fleet(owner)
    const [one, other] = await Promise.all([instance(), instance()])
    expect(admitted(await decide(one, BURST + 1, '/day'))).toBe(BURST)
    await set(one, { ...ALICE, policy: 'day', multiply: 3 })
    const passed = await untilAdmitted(other, '/day')
    expect(passed + admitted(await decide(other, 3 * BURST, '/day'))).toBe(2 * BURST)
  })

  test.concurrent('that blocks ends the open streams of its caller at all instances', async (owner) => {
    const { instance } = fleet(owner)
    const backend = await HttpBackend.start(
      (_req, res) => void res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n'),
      0,
      owner,
    )
    const [one, other] = await Promise.all([instance(proxyEnv(backend.url)), instance(proxyEnv(backend.url))])
    const stream = (edge: Edge, key: string) => new StreamClient(edge.port, '/api', '', [['X-Key', key]]).untilText('data: 1')
    const [here, there, bob] = await Promise.all([stream(one, 'alice'), stream(other, 'alice'), stream(other, 'bob')])
    owner.onTestFinished(() => bob.abort())
    expect((await set(one, { ...ALICE, block: true, cut_streams: true })).status).toBe(201)
    await Promise.all([here.untilClosed(), there.untilClosed()])
    expect(bob.outcome).toBe('open')
    expect((await askAdmin(other.adminPort, 'GET', 'overrides')).json.overrides).toMatchObject([{ block: true, cut_streams: true }])
  })

  test.concurrent('is ended at another one, and then the rule holds as before', async (owner) => {
    const { instance } = fleet(owner)
    const [one, other] = await Promise.all([instance(), instance()])
    const { json } = await set(one, { ...ALICE, block: true })
    await until(async () => (await decide(other, 1))[0] === 403)
    await untilListed(other, 1)
    expect((await askAdmin(other.adminPort, 'DELETE', `overrides/${json.id}?reason=over`)).status).toBe(204)
    expect(admitted(await decide(other, 1))).toBe(1)
    await until(async () => (await decide(one, 1))[0] === 200)
    await untilListed(one, 0)
  })

  test.concurrent('is edited at another one, keeps its id, and adds the difference once', async (owner) => {
    const { instance } = fleet(owner)
    const [one, other] = await Promise.all([instance(), instance()])
    await usedUp(one, other)
    const made = (await set(one, { ...ALICE, multiply: 2 })).json
    await untilListed(other, 1)
    expect(admitted(await decide(one, 2 * BURST))).toBe(BURST)
    const edit = (edge: Edge, body: object) =>
      askAdmin(edge.adminPort, 'PATCH', `overrides/${made.id}`, { body: { ...body, reason: 'an edit' } })
    const extended = await edit(other, { until: '5h' })
    expect(extended).toMatchObject({ status: 200, json: { id: made.id, created_at: made.created_at, multiply: 2, durable: true } })
    const edited = async (edge: Edge) => (await askAdmin(edge.adminPort, 'GET', 'overrides')).json.overrides
    await until(async () => (await edited(one))[0].edited !== null)
    expect(await edited(one)).toEqual([extended.json])
    // Another end adds nothing, a larger limit its difference.
    expect(admitted([...(await decide(one, BURST)), ...(await decide(other, BURST))])).toBe(0)
    expect((await edit(one, { multiply: 3 })).status).toBe(200)
    const passed = await untilAdmitted(other)
    expect(passed + admitted([...(await decide(one, 2 * BURST)), ...(await decide(other, 2 * BURST))])).toBe(BURST)
    await until(async () => (await edited(other))[0].multiply === 3)
    // Both edit the same version: one wins, and the other is told.
    const both = await Promise.all([edit(one, { until: '6h' }), edit(other, { until: '7h' })])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
    const late = await instance()
    expect(await edited(late)).toEqual([both.find(({ status }) => status === 200)!.json])
    const history = (await askAdmin(other.adminPort, 'GET', 'overrides/history')).json.overrides
    expect(history.map(({ ended }: { ended: { why: string } }) => ended.why)).toEqual(['edited', 'edited', 'edited'])
    expect((await askAdmin(late.adminPort, 'DELETE', `overrides/${made.id}?reason=over`)).status).toBe(204)
    await untilListed(one, 0)
  })

  test.concurrent('is refused where another operator has set one at another instance, unless it names that', async (owner) => {
    const { instance } = fleet(owner)
    const [one, other] = await Promise.all([instance(), instance()])
    const [first, second] = await Promise.all([set(one, { ...ALICE, multiply: 2 }), set(other, { ...ALICE, multiply: 3 })])
    expect([first.status, second.status].sort()).toEqual([201, 409])
    const [won, lost] = first.status === 201 ? [first, second] : [second, first]
    expect(lost.json.error).toMatchObject({ code: 'override_exists', message: expect.stringContaining(won.json.id) })
    expect((await set(other, { ...ALICE, multiply: 4, replace: won.json.id })).status).toBe(201)
    expect((await set(one, { ...ALICE, multiply: 5, replace: won.json.id })).status).toBe(409)
  })

  test.concurrent('knows credentials by a digest that all instances share, and Redis has no other', async (owner) => {
    const { prefix, instance } = fleet(owner)
    const [one, other] = await Promise.all([instance(), instance()])
    const credential = 'secret-of-a-customer'
    const { status, json } = await set(one, { policy: 'login', rule: 'token', values: { bearer: credential }, block: true })
    expect([status, json.values.bearer]).toEqual([201, expect.stringMatching(/^[0-9a-f]{16}$/)])
    const ask = () => other.decide({ uri: '/login', fields: [['Authorization', `Bearer ${credential}`]] })
    await until(async () => (await ask()).status === 403)
    for (const key of (await redis.command('KEYS', `${prefix}*`)) as string[]) {
      expect(String(await redis.command('DUMP', key)).includes('secret-of')).toBe(false)
    }
  })

  test.concurrent('is written back when Redis has lost it, and one that was ended is not', async (owner) => {
    const { prefix, instance } = fleet(owner)
    const [one, other] = await Promise.all([instance(), instance()])
    const ended = await set(one, { ...ALICE, multiply: 2 })
    await set(one, { ...ALICE, values: { 'header:x-key': 'bob' }, block: true })
    expect((await askAdmin(one.adminPort, 'DELETE', `overrides/${ended.json.id}?reason=over`)).status).toBe(204)
    await untilListed(other, 1)
    for (const key of (await redis.command('KEYS', `${prefix}*`)) as string[]) await redis.command('DEL', key)
    await until(async () => (await redis.command('HLEN', `${prefix}{control}:overrides`)) === 2)
    const late = await instance()
    expect((await askAdmin(late.adminPort, 'GET', 'overrides')).json.overrides.map(({ block }: { block?: true }) => block)).toEqual([true])
    expect(await decide(late, 1, '/api', 'bob')).toEqual([403])
  })

  test.concurrent('is in force on an instance that starts later from its first request on, and over by itself', async (owner) => {
    const { prefix, instance } = fleet(owner)
    const one = await instance()
    await set(one, { ...ALICE, block: true })
    const late = await instance()
    expect(await decide(late, 1)).toEqual([403])
    const bob = { ...ALICE, values: { 'header:x-key': 'bob' } }
    expect((await set(one, { ...bob, block: true, until: '10s' })).status).toBe(201)
    await until(async () => (await redis.command('HLEN', `${prefix}{control}:overrides`)) === 1)
    await until(async () => (await decide(late, 1, '/api', 'bob'))[0] === 200)
  })

  test.concurrent('is refused where it would be over before it is in force', async (owner) => {
    const one = await fleet(owner).instance()
    const response = await set(one, { ...ALICE, block: true, until: '1s' })
    expect([response.status, response.json.error.code]).toEqual([400, 'bad_until'])
    expect((await askAdmin(one.adminPort, 'GET', 'overrides')).json.overrides).toEqual([])
  })

  test.concurrent('is refused while Redis is away, and nothing is changed', async (owner) => {
    const { instance } = fleet(owner)
    const gate = await gateTo(redis.port, owner)
    const one = await instance({}, `redis://127.0.0.1:${gate.port}`)
    gate.close()
    const response = await set(one, { ...ALICE, block: true })
    expect([response.status, response.json.error.code]).toEqual([503, 'store_unavailable'])
    expect((await askAdmin(one.adminPort, 'GET', 'overrides')).json.overrides).toEqual([])
  })

  test.concurrent('that is damaged in Redis is ignored and logged', async (owner) => {
    const { prefix, instance } = fleet(owner)
    const one = await instance()
    await set(one, { ...ALICE, block: true })
    for (const [subject, entry] of [
      ['nonsense', 'nonsense'],
      ['["rule","a","b"]', '1 99999999999999 99999999999999 id {"v":1}'],
    ] as const) {
      await redis.command('HSET', `${prefix}{control}:overrides`, subject, entry)
      await redis.command('ZADD', `${prefix}{control}:overrides:order`, 9e15, subject)
    }
    const late = await instance()
    await until(() => late.logged('overrides_unreadable').length > 0)
    expect(await decide(late, 1)).toEqual([403])
    // These numbers of changes are higher than the last one, so that Redis returns everything with every poll. What is known is not logged again.
    const bob = { ...ALICE, values: { 'header:x-key': 'bob' } }
    await set(one, { ...bob, block: true })
    await untilListed(late, 2)
    expect(await untilLogged(late, 'overrides_unreadable')).toMatchObject([{ overrides: 2 }])
  })
})

function set(edge: Edge, body: object): Promise<AdminResponse> {
  return askAdmin(edge.adminPort, 'POST', 'overrides', { body: { ...WHY, ...body } })
}

function decide(edge: Edge, times: number, uri = '/api', key = 'alice'): Promise<number[]> {
  return edge.decideTimes(times, { uri, fields: [['X-Key', key]] })
}

/** All of it is spent, by both. */
async function usedUp(one: Edge, other: Edge): Promise<void> {
  const statuses = [...(await decide(one, BURST / 2)), ...(await decide(other, BURST)), ...(await decide(one, BURST))]
  expect(admitted(statuses)).toBe(BURST)
}

/** Returns 1: it is. */
async function untilAdmitted(edge: Edge, uri?: string): Promise<number> {
  await until(async () => (await decide(edge, 1, uri))[0] === 200)
  return 1
}

function untilListed(edge: Edge, count: number): Promise<void> {
  return until(async () => (await askAdmin(edge.adminPort, 'GET', 'overrides')).json.overrides.length === count)
}
