import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { runningFleet } from '../support/fleet/fleet.ts'
import { runningCluster } from '../support/redis/redis-cluster.ts'
import { runningSentinels } from '../support/redis/redis-sentinel.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { RespConnection } from '../support/redis/resp.ts'
import { gateTo, type TcpGate } from '../support/redis/tcp-gate.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { until } from '../support/until.ts'

// What other suites take for granted of the parts that they stand on.

describeWithRedis('a Redis of the tests', () => {
  test('forgets over a restart unless told to keep', async () => {
    const redis = await runningRedis()
    await redis.command('SET', 'key', 'value')
    await redis.restart('kept')
    expect(await redis.command('GET', 'key')).toBe('value')
    await redis.restart()
    expect(await redis.command('GET', 'key')).toBe(null)
    expect((await redis.calls()).get('get')).toBe(1)
  })

  test.concurrent('in a cluster answers ASK while a slot moves, then MOVED, and loses nothing', async (owner) => {
    const cluster = await runningCluster(owner)
    const slot = await cluster.slotOf('key')
    const from = await cluster.masterOf(slot)
    const to = cluster.nodes.slice(0, 3).find((node) => node !== from)!
    await from.command('SET', 'key', 'value')
    await cluster.beginMigration(slot, to)
    expect(await from.command('GET', 'key')).toBe('value')
    await cluster.moveKeys(slot, to)
    await expect(from.command('GET', 'key')).rejects.toThrow(`ASK ${slot} ${to.address}`)
    await cluster.endMigration(slot, to)
    await expect(from.command('GET', 'key')).rejects.toThrow(`MOVED ${slot} ${to.address}`)
    await cluster.failOver(slot)
    const successor = await cluster.masterOf(slot)
    expect(successor).not.toBe(to)
    expect(await successor.command('GET', 'key')).toBe('value')
  })

  test.concurrent('under sentinels is replaced when it dies', async (owner) => {
    const group = await runningSentinels({}, owner)
    const dead = await group.killMaster()
    const successor = await group.master()
    expect(successor).not.toBe(dead)
    expect(await successor.command('SET', 'key', 'value')).toBe('OK')
  })
})

describeWithRedis(
  'a Redis whose clock steps',
  () => {
    test('goes by it in TIME and in what expires, forward and back', async () => {
      const redis = await runningRedis({ hasSteppingClock: true })
      const startMs = await timeMs(redis)
      await redis.command('SET', 'key', 'value', 'PX', 600_000)
      redis.stepClock(-3_600_000)
      expect(await timeMs(redis)).toBeLessThan(startMs - 1_800_000)
      expect(await redis.command('PTTL', 'key')).toBeGreaterThan(3_600_000)
      redis.stepClock(7_200_000)
      expect(await timeMs(redis)).toBeGreaterThan(startMs + 1_800_000)
      expect(await redis.command('GET', 'key')).toBe(null)
    })
  },
  'libfaketime',
)

describeWithRedis('a gate before Redis', () => {
  test('cuts when the command is done and nobody was told', async () => {
    const { redis, gate, client } = await gated()
    const isCut = gate.cutAfterAnswerBytes(0)
    await expect(client.command('INCR', 'n')).rejects.toThrow('broke')
    await isCut
    expect(await redis.command('GET', 'n')).toBe('1')
    expect(gate.bytes.answers).toBe(0)
  })

  test('cuts in the middle of an answer', async () => {
    const { redis, gate, client } = await gated()
    const isCut = gate.cutAfterAnswerBytes(2)
    await expect(client.command('INCR', 'n')).rejects.toThrow('broke')
    await isCut
    expect(await redis.command('GET', 'n')).toBe('1')
    expect(gate.bytes.answers).toBe(2)
  })

  test('cuts before Redis has heard anything', async () => {
    const { redis, gate, client } = await gated()
    const isCut = gate.cutBeforeNextRequest()
    await expect(client.command('INCR', 'n')).rejects.toThrow('broke')
    await isCut
    expect(await redis.command('GET', 'n')).toBe(null)
  })

  test('holds what it is told to hold, until it is released', async () => {
    const { redis, gate, client } = await gated()
    gate.hold('answers')
    const late = client.command('INCR', 'n')
    await until(async () => (await redis.command('GET', 'n')) === '1')
    expect(gate.bytes.answers).toBe(0)
    gate.release()
    expect(await late).toBe(1)
  })

  test('refuses, and accepts again on the same port', async () => {
    const { gate, client } = await gated()
    gate.refuse()
    await expect(dial(gate)).rejects.toThrow('ECONNREFUSED')
    expect(await client.command('PING')).toBe('PONG')
    await gate.accept()
    expect(await (await dial(gate)).command('PING')).toBe('PONG')
    expect([gate.connections, gate.openConnections]).toEqual([2, 2])
  })
})

test('an instance of a fleet that is killed comes back on its port, and its log is all there', async () => {
  const perCaller = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-caller'], 10, 0.001)] }))
  const fleet = await runningFleet({ size: 2, bundle: perCaller })
  expect((await fleet.decideAll([['X-Caller', 'alice']])).map(({ status }) => status)).toEqual([200, 200])
  const [instance] = fleet.instances
  await instance!.restart()
  expect((await instance!.decide([['X-Caller', 'alice']])).headers['ratelimit-remaining']).toBe('9')
  expect(await instance!.stop()).toBe(0)
  expect(await untilLogged(instance!, 'started', 2)).toHaveLength(2)
})

async function timeMs(redis: RedisServer): Promise<number> {
  const [seconds, microseconds] = (await redis.command('TIME')) as readonly string[]
  return Number(seconds) * 1000 + Number(microseconds) / 1000
}

async function gated(): Promise<{ redis: RedisServer; gate: TcpGate; client: RespConnection }> {
  const redis = await runningRedis()
  const gate = await gateTo(redis.port)
  return { redis, gate, client: await dial(gate) }
}

function dial(gate: TcpGate): Promise<RespConnection> {
  return RespConnection.connect({ port: gate.port, host: '127.0.0.1' })
}
