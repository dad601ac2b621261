import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { hashSlot } from '../../src/store/redis/link/cluster-map.ts'
import { openLink, type RecordedLink } from '../support/redis/recorded-link.ts'
import { RedisCluster } from '../support/redis/redis-cluster.ts'
import type { RedisServer } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { thisTest } from '../support/service/running.ts'
import { until } from '../support/until.ts'

const KEYS = Array.from({ length: 12 }, (_, i) => `edge:${i}`)

describeWithRedis('a link to a cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start()
  })
  beforeEach(async () => {
    await cluster.settled()
    for (const node of cluster.nodes) await node.command('FLUSHALL').catch(() => {}) // replicas may not
  })
  afterAll(() => cluster.close())

  test('asks each master for its own slots', async () => {
    const { link, countUp, circuits, errors } = await clusterLink(cluster)
    expect(await Promise.all(KEYS.map(countUp))).toEqual(KEYS.map(() => '1'))
    expect(KEYS.map((key) => link.groupOf(key))).toEqual(KEYS.map(hashSlot))
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('with a hash tag in the prefix all keys are of one master, and the others are of use all the same', async () => {
    const { link, countUp, circuits, errors } = openLink(
      `redis://${cluster.addresses[0]!},${cluster.addresses[1]!}`,
      1000,
      thisTest,
      '{edge}:',
    )
    await link.firstUse(600_000)
    expect([await countUp('{edge}:a'), await countUp('{edge}:a')]).toEqual(['1', '2'])
    expect(link.groupOf('{edge}:a')).toBe(link.groupOf('{edge}:b'))
    expect(KEYS.filter((key) => !link.isUsable(hashSlot(key)))).toEqual([])
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('follows a slot that moves, key by key, and sends nothing twice', async () => {
    const { countUp, circuits, errors } = await clusterLink(cluster)
    const slot = hashSlot('{x}')
    const from = await cluster.masterOf(slot)
    const to = cluster.nodes.slice(0, 3).find((node) => node !== from)!
    await countUp('{x}old')
    await cluster.beginMigration(slot, to)
    expect([await countUp('{x}old'), await countUp('{x}new')]).toEqual(['2', '1']) // the new one by ASK
    await cluster.moveKeys(slot, to)
    expect([await countUp('{x}old'), await countUp('{x}new')]).toEqual(['3', '2'])
    await cluster.endMigration(slot, to)
    await to.resetCalls()
    expect([await countUp('{x}old'), await countUp('{x}new')]).toEqual(['4', '3'])
    expect((await to.calls()).get('asking')).toBe(undefined)
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('a master that takes its first slot over, and has no script yet, gets it with ASKING', async () => {
    const { countUp, circuits, errors } = await clusterLink(cluster)
    const slot = hashSlot('{y}')
    const from = await cluster.masterOf(slot)
    const to = cluster.nodes.slice(0, 3).find((node) => node !== from)!
    await cluster.beginMigration(slot, to)
    await to.command('SCRIPT', 'FLUSH')
    const counts = await Promise.all(['{y}a', '{y}a', '{y}b'].map(countUp))
    expect(counts).toEqual(['1', '2', '1'])
    await cluster.moveKeys(slot, to)
    await cluster.endMigration(slot, to)
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('a master that hands over is followed', async () => {
    const { link, countUp } = await clusterLink(cluster)
    const key = KEYS[0]!
    expect(await countUp(key)).toBe('1')
    await cluster.failOver(hashSlot(key))
    // Only a call can find out; the first may be refused, while the new master is being connected to.
    const first = await countUp(key).catch((error) => error)
    await until(() => link.isUsable(hashSlot(key)))
    const second = await countUp(key)
    if (typeof first === 'string') expect([first, second]).toEqual(['2', '3'])
    else expect([first.outcome, first.code, second]).toEqual(['refused', 'MOVED', '2'])
  })

  test('who is no cluster is told so', async () => {
    const single = openLink(`redis://${cluster.addresses[0]}`)
    await until(() => single.circuits.length > 0 || single.link.isUsable(0))
    const refused = await Promise.all(KEYS.map((key) => single.countUp(key).catch((error) => error.code)))
    expect(refused).toContain('MOVED')
    await until(() => single.circuits.length > 0)
    expect(single.circuits[0]).toContain('redis+cluster://')
  })

  test('masters that refuse because one is missing are of use again when it is replaced', async () => {
    const { link, countUp, circuits } = await clusterLink(cluster)
    const slot = hashSlot(KEYS[0]!)
    const [other] = await keysOfOthers(cluster, await cluster.masterOf(slot))
    const replica = await cluster.replicaOf(await cluster.masterOf(slot))
    const configure = async (fullCoverage: string, noFailover: string) => {
      for (const node of cluster.nodes) {
        if (node.isRunning) await node.command('CONFIG', 'SET', 'cluster-require-full-coverage', fullCoverage)
      }
      await replica.command('CONFIG', 'SET', 'cluster-replica-no-failover', noFailover)
    }
    await configure('yes', 'yes')
    const dead = await cluster.killMaster(slot)
    await until(async () => (await countUp(other!).catch(({ code }) => code)) === 'CLUSTERDOWN')
    expect(link.isUsable(hashSlot(other!))).toBe(false)
    expect(circuits).toContainEqual(expect.stringMatching('opened: CLUSTERDOWN'))
    await configure('no', 'no')
    await cluster.replaced(dead)
    await until(() => KEYS.every((key) => link.isUsable(hashSlot(key))))
    await dead.server.start()
  })

  test('a dead master is missed alone, and its replica takes its place', async () => {
    const { link, countUp, circuits } = await clusterLink(cluster)
    const key = KEYS[0]!
    const slot = hashSlot(key)
    const master = await cluster.masterOf(slot)
    const others = await keysOfOthers(cluster, master)
    const dead = await cluster.killMaster(slot)
    await until(() => circuits.length > 0)
    expect(others.filter((other) => !link.isUsable(hashSlot(other)))).toEqual([])
    expect(await countUp(others[0]!)).toBe('1')
    await cluster.replaced(dead)
    await until(() => link.isUsable(slot))
    expect(await countUp(key)).toBe('1')
    // The dead one's circuit does not stay open.
    expect(circuits.filter((line) => line.startsWith(master.address))).toEqual([
      expect.stringContaining(`${master.address} opened: `),
      `${master.address} closed: it no longer serves any slots`,
    ])
  })
})

async function keysOfOthers(cluster: RedisCluster, master: RedisServer): Promise<string[]> {
  const keys: string[] = []
  for (const key of KEYS) if ((await cluster.masterOf(hashSlot(key))) !== master) keys.push(key)
  return keys
}

async function clusterLink(cluster: RedisCluster): Promise<RecordedLink> {
  const recorded = openLink(`redis://${cluster.addresses.slice(0, 2).join(',')}`)
  await recorded.link.firstUse(600_000)
  return recorded
}
