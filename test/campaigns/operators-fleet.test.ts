import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, type AdminResponse, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy, windowRule } from '../support/bundles/bundles.ts'
import { type Instance, runningFleet } from '../support/fleet/fleet.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { admitted, HARDLY_ANY } from '../support/redis/sharing-edge.ts'
import { serverPort } from '../support/service/server-port.ts'
import { until } from '../support/until.ts'

const BURST = 40
const RULES = bundle(
  1,
  policy('api', { selector: { pathPrefix: '/api' }, rules: [bucketRule('key', ['header:x-key'], BURST, HARDLY_ANY)] }),
  policy('day', { selector: { pathPrefix: '/day' }, rules: [windowRule('key', ['header:x-key'], { limit: BURST, period: '1d' })] }),
)
const MODES = [
  ['exact', {}],
  ['leased', { EDGE_REDIS_MODE: 'leased', EDGE_REDIS_LEASE_MS: '500' }],
] as const

describeWithRedis('operators of three instances on one Redis', () => {
  test.for(MODES)('overrides are in force everywhere, survive kills and lost data, and end everywhere (%s)', async ([, env]) => {
    const { instances, ports, redis } = await operatedFleet(env)
    const [one, two, three] = instances as [Instance, Instance, Instance]
    const block = await set(ports[0]!, { values: key('mallory'), block: true })
    const raise = await set(ports[1]!, { values: key('alice'), multiply: 3 })
    const free = await set(ports[2]!, { values: key('bob'), unlimited: true })
    const cut = await set(ports[0]!, { policy: 'day', all: true, multiply: 0.5 })
    for (const { status } of [block, raise, free, cut]) expect(status).toBe(201)
    const everywhere = async (): Promise<void> => {
      for (const instance of instances) {
        await until(async () => (await decide(instance, 1, 'mallory'))[0] === 403)
        await until(async () => admitted(await decide(instance, 2 * BURST, 'bob')) === 2 * BURST)
      }
    }
    await everywhere()
    await one.kill()
    await one.start()
    // In force before it serves.
    expect(await decide(one, 1, 'mallory')).toEqual([403])
    await redis.command('FLUSHALL')
    await everywhere()
    await two.kill()
    await redis.restart('lost')
    await two.start()
    await everywhere()
    // Of the raised limit, nobody has used any: each instance is limited by its own count in any case.
    const used = admitted([...(await decide(three, 4 * BURST, 'alice')), ...(await decide(one, 4 * BURST, 'alice'))])
    expect(used).toBe(3 * BURST)
    expect(admitted(await decide(two, BURST, 'carol', '/day'))).toBe(BURST / 2)
    for (const { json } of [block, free]) expect((await end(ports[2]!, json.id)).status).toBe(204)
    // The caller may have used the limit up at an instance that restarted together with Redis, until another wrote the block back.
    for (const instance of instances) {
      await until(async () => (await decide(instance, 1, 'mallory'))[0] !== 403)
    }
    // An end that only the killed instance and Redis know is lost with both of them: wait until the others know both ends.
    for (const port of ports) await until(async () => (await overridesAt(port)).length === 2)
    await three.kill()
    await redis.command('FLUSHALL')
    await three.start()
    for (const port of ports) {
      await until(async () => (await overridesAt(port)).length === 2)
      expect((await overridesAt(port)).map(({ id }) => id).sort()).toEqual([cut.json.id, raise.json.id].sort())
    }
  })

  test.for(MODES)('shadow_all stops enforcement everywhere, and is over by itself (%s)', async ([, env]) => {
    const { instances, ports } = await operatedFleet(env)
    expect(admitted(await decide(instances[0]!, BURST + 2, 'alice'))).toBe(BURST)
    expect((await post(ports[1]!, 'overrides', { shadow_all: true, until: '30s', reason: 'a test' })).status).toBe(201)
    // All at once: each must be seen before it is over.
    await Promise.all(
      instances.map(async (instance) => {
        await until(async () => (await decide(instance, 1, 'alice'))[0] === 200)
        await until(async () => {
          await sleep(200)
          return (await decide(instance, 1, 'alice'))[0] === 429
        })
      }),
    )
  })

  test.for(MODES)('of several at once, one sets an override of a subject (%s)', async ([, env]) => {
    const { ports } = await operatedFleet(env)
    for (let round = 0; round < 3; round++) {
      const values = key(`caller ${round}`)
      const responses = await Promise.all([...ports, ...ports].map((port) => set(port, { values, multiply: 2 })))
      expect(responses.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409])
      const { id } = responses.find(({ status }) => status === 201)!.json
      for (const port of ports) await until(async () => (await overridesAt(port)).some((override) => override.id === id))
    }
  })

  test.for(MODES)('a reset during traffic wins everywhere, and nothing from before comes back (%s)', async ([, env]) => {
    const { instances, ports, redis } = await operatedFleet(env, true)
    for (const round of [1, 2, 3]) {
      const caller = `caller ${round}`
      const before = await Promise.all(instances.map((instance) => decide(instance, BURST, caller)))
      expect(admitted(before.flat())).toBeLessThanOrEqual(BURST)
      const busy = { isOver: false }
      const traffic = Promise.all(instances.map((instance) => keepAsking(instance, caller, busy)))
      const response = await post(ports[round % 3]!, 'counters/reset', {
        policy: 'api',
        rule: 'key',
        values: key(caller),
        reason: 'a test',
      })
      expect(response.status).toBe(200)
      if (round === 2) {
        await instances[0]!.kill()
        await instances[0]!.start()
      }
      // Whatever each instance had spent before, all of the new limit can be used, once: it is, by the traffic or now.
      let used = 0
      await until(async () => {
        used = admitted((await Promise.all(instances.map((instance) => decide(instance, 2, caller)))).flat())
        return used === 0
      })
      busy.isOver = true
      const after = (await traffic).flat()
      expect(after.length).toBeGreaterThan(0)
      // From its state file, an instance that was killed does not bring back what it had counted.
      if (round === 3) {
        await post(ports[1]!, 'counters/reset', { policy: 'api', rule: 'key', values: key(caller), reason: 'a test' })
        await instances[0]!.kill()
        await redis.command('FLUSHALL')
        await until(async () => ((await redis.command('HLEN', 'edge:{control}:resets')) as number) > 0)
        await instances[0]!.start()
        // Another instance may have leased tokens in between, and gives them back.
        let passed = 0
        await until(async () => {
          passed += admitted(await decide(instances[0]!, BURST + 1 - passed, caller))
          return passed >= BURST
        })
        expect(passed).toBe(BURST)
      }
    }
  })
})

interface OperatedFleet {
  readonly instances: readonly Instance[]
  /** Of the admin API. */
  readonly ports: readonly number[]
  readonly redis: RedisServer
}

async function operatedFleet(env: Readonly<Record<string, string>>, hasStateFiles = false): Promise<OperatedFleet> {
  const redis = await runningRedis()
  const ports = [await serverPort(), await serverPort(), await serverPort()]
  const ownEnv = Object.fromEntries(
    ports.map((port, place) => [
      place,
      { EDGE_ADMIN_PORT: String(port), ...(hasStateFiles && { EDGE_STATE_FILE: `${redis.directory}/state-${place}` }) },
    ]),
  )
  const common = { EDGE_REDIS_URL: redis.url, EDGE_REDIS_TIMEOUT_MS: '60000', EDGE_ADMIN_TOKEN: ADMIN_TOKEN, EDGE_WORKERS: '2', ...env }
  const { instances } = await runningFleet({ size: 3, bundle: RULES, env: common, ownEnv })
  return { instances, ports, redis }
}

function key(name: string): object {
  return { 'header:x-key': name }
}

function post(port: number, path: string, body: object): Promise<AdminResponse> {
  return askAdmin(port, 'POST', path, { body })
}

function set(port: number, change: object): Promise<AdminResponse> {
  return post(port, 'overrides', { policy: 'api', rule: 'key', until: '1h', reason: 'a test', ...change })
}

function end(port: number, id: string): Promise<AdminResponse> {
  return askAdmin(port, 'DELETE', `overrides/${id}?reason=over`)
}

async function overridesAt(port: number): Promise<{ readonly id: string }[]> {
  return (await askAdmin(port, 'GET', 'overrides')).json.overrides
}

async function decide(instance: Instance, times: number, caller: string, path = '/api'): Promise<number[]> {
  const statuses: number[] = []
  for (let i = 0; i < times; i++) statuses.push((await instance.decide([['X-Key', caller]], path)).status)
  return statuses
}

/** An instance that is killed is asked again when it is back. */
async function keepAsking(instance: Instance, caller: string, busy: { readonly isOver: boolean }): Promise<number[]> {
  const statuses: number[] = []
  while (!busy.isOver) statuses.push(...(await decide(instance, 1, caller).catch(() => [])))
  return statuses
}
