import { expect, test } from 'vitest'
import { runningCluster } from '../support/redis-cluster.ts'
import { runningRedis } from '../support/redis-server.ts'
import { describeWithRedis } from '../support/redis-suite.ts'

describeWithRedis('a Redis of the tests', () => {
  test('forgets or keeps over a restart', async () => {
    const t = performance.now()
    const redis = await runningRedis()
    console.log('start', performance.now() - t)
    await redis.command('SET', 'a', 'b')
    await redis.restart('kept')
    expect(await redis.command('GET', 'a')).toBe('b')
    await redis.restart()
    expect(await redis.command('GET', 'a')).toBe(null)
    expect((await redis.calls()).get('get')).toBe(1)
  })
  test('cluster', async () => {
    const t = performance.now()
    const cluster = await runningCluster()
    console.log('start', performance.now() - t)
    const slot = await cluster.slotOf('a')
    const from = await cluster.masterOf(slot)
    const to = cluster.nodes.slice(0, 3).find((n) => n !== from)!
    await from.command('SET', 'a', 'b')
    await cluster.beginMigration(slot, to)
    expect(await from.command('GET', 'a')).toBe('b')
    await cluster.moveKeys(slot, to)
    await expect(from.command('GET', 'a')).rejects.toThrow(`ASK ${slot} ${to.address}`)
    await cluster.endMigration(slot, to)
    await expect(from.command('GET', 'a')).rejects.toThrow(`MOVED ${slot} ${to.address}`)
    let k = performance.now()
    await cluster.failOver(slot)
    console.log('failover', performance.now() - k)
    k = performance.now()
    const dead = await cluster.killMaster(0)
    console.log('kill', performance.now() - k)
    await dead.start()
    k = performance.now()
    await cluster.settled()
    console.log('back', performance.now() - k)
  })
})
