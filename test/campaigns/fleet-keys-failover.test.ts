import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, type AdminResponse, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { type Instance, runningFleet } from '../support/fleet/fleet.ts'
import { runningCluster } from '../support/redis/redis-cluster.ts'
import { MASTER_NAME, runningSentinels } from '../support/redis/redis-sentinel.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import type { Owner } from '../support/service/running.ts'
import { serverPort } from '../support/service/server-port.ts'
import { until } from '../support/until.ts'

const RULES = {
  ...bundle(1, policy('p', { rules: [bucketRule('id', ['caller:id'], 1e9, 1e6)] })),
  callers: { mode: 'enforce', keys: { from: ['bearer'] } },
}
const INSTANCES = 3
/** Keys that are revoked one after the other while the master changes. */
const REVOKED = 12

/** A Redis that can lose the master of the keys. */
interface FailingRedis {
  readonly url: string
  /** Resolves when another one serves, and all nodes agree. */
  readonly change: () => Promise<void>
}

const REDIS: Readonly<Record<string, (owner: Owner) => Promise<FailingRedis>>> = {
  'a cluster whose master dies': async (owner) => {
    const cluster = await runningCluster(owner)
    const change = async (): Promise<void> => {
      const dead = await cluster.killMaster(await cluster.slotOf('edge:{keys}:facts'))
      await cluster.replaced(dead)
      await dead.server.start()
      await cluster.settled()
    }
    return { url: `redis+cluster://${cluster.addresses.join(',')}`, change }
  },
  'a cluster whose master hands over': async (owner) => {
    const cluster = await runningCluster(owner)
    const change = async (): Promise<void> => cluster.failOver(await cluster.slotOf('edge:{keys}:facts'))
    return { url: `redis+cluster://${cluster.addresses.join(',')}`, change }
  },
  'sentinels whose master dies': async (owner) => {
    const group = await runningSentinels({}, owner)
    const change = async (): Promise<void> => {
      const dead = await group.killMaster()
      await dead.start()
      await group.settled()
    }
    return { url: `redis+sentinel://${group.addresses.join(',')}/${MASTER_NAME}`, change }
  },
  'sentinels whose master hands over': async (owner) => {
    const group = await runningSentinels({}, owner)
    return { url: `redis+sentinel://${group.addresses.join(',')}/${MASTER_NAME}`, change: () => group.failOver() }
  },
}

interface Key {
  readonly id: string
  readonly key: string
}

describeWithRedis('keys of three instances', () => {
  test.for(Object.entries(REDIS))('are revoked everywhere on %s, and never accepted again', async ([name, start], owner) => {
    const { url, change } = await start(owner)
    const adminPorts: number[] = []
    for (let i = 0; i < INSTANCES; i++) adminPorts.push(await serverPort())
    const ownEnv = Object.fromEntries(adminPorts.map((port, i) => [i, { EDGE_ADMIN_PORT: String(port) }]))
    const env = { EDGE_REDIS_URL: url, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
    const { instances } = await runningFleet({ size: INSTANCES, bundle: RULES, env, ownEnv }, owner)
    const keys: Key[] = []
    for (let i = 0; i < REVOKED + 1; i++) keys.push((await create(adminPorts[i % INSTANCES]!)).json)
    const [kept, ...leaked] = keys as [Key, ...Key[]]
    for (const { key } of keys) for (const instance of instances) await until(async () => (await statusAt(instance, key)) === 200)

    // A key that nobody has revoked is never refused, whatever becomes of Redis.
    const steady = { statuses: new Set<number>(), isOver: false }
    const steadily = Promise.all(instances.map((instance) => keepAsking(instance, kept.key, steady)))
    const changing = { isOver: false }
    const changed = change().finally(() => {
      changing.isOver = true
    })
    const elsewhereMs: number[] = []
    const during: boolean[] = []
    for (const [i, { id, key }] of leaked.entries()) {
      const place = i % INSTANCES
      for (const instance of instances) expect(await statusAt(instance, key)).toBe(200)
      // Until it is confirmed, nothing is, and an operator tries again.
      await until(async () => (await revoke(adminPorts[place]!, id)).status === 200)
      const confirmedMs = performance.now()
      during.push(!changing.isOver)
      // What was confirmed is in force where it was, before anybody is told.
      expect(await statusAt(instances[place]!, key)).toBe(401)
      const others = instances.filter((_, each) => each !== place)
      await Promise.all(others.map((instance) => until(async () => (await statusAt(instance, key)) === 401)))
      elsewhereMs.push(performance.now() - confirmedMs)
    }
    await changed
    steady.isOver = true
    await steadily
    expect(steady.statuses).toEqual(new Set([200]))
    await instances[0]!.restart()
    for (const instance of instances) {
      expect(await statusAt(instance, kept.key)).toBe(200)
      for (const { key } of leaked) expect(await statusAt(instance, key)).toBe(401)
    }
    const [longest, median] = [Math.max(...elsewhereMs), elsewhereMs.sort((a, b) => a - b)[REVOKED >> 1]!]
    process.stderr.write(
      `${name}: ${during.filter(Boolean).length} of ${REVOKED} revoked meanwhile; known to all others after ${Math.round(median)} ms (median), ${Math.round(longest)} ms (longest)\n`,
    )
  })
})

function create(port: number): Promise<AdminResponse> {
  return askAdmin(port, 'POST', 'keys', { body: { labels: { team: 'search' }, reason: 'a test' } })
}

function revoke(port: number, id: string): Promise<AdminResponse> {
  return askAdmin(port, 'DELETE', `keys/${id}?reason=leaked`)
}

async function statusAt(instance: Instance, key: string): Promise<number> {
  return (await instance.decide([['Authorization', `Bearer ${key}`]])).status
}

async function keepAsking(instance: Instance, key: string, steady: { readonly statuses: Set<number>; isOver: boolean }): Promise<void> {
  while (!steady.isOver) {
    steady.statuses.add(await statusAt(instance, key))
    await sleep(5)
  }
}
