import { createHook } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openLink, usableLink } from '../../support/redis/recorded-link.ts'
import { redisOfSuite, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { runningTls } from '../../support/redis/redis-tls.ts'
import { thisTest } from '../../support/service/running.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

/** Of links whose calls are to be given up. It passes when the test says so. */
const BRIEF_MS = 200
const NEVER_MS = 2 ** 31 - 1
/** A connection that is silent for so long is replaced. */
const SILENCE_MS = 1000

describeWithRedis('a link to one Redis', () => {
  const shared = redisOfSuite()

  test('a Redis that is loading its data is not used before it has', async () => {
    // It loads for ten seconds, unless it is told to hurry.
    const args = ['--loading-process-events-interval-bytes', '1024', '--key-load-delay', '5000']
    const redis = await runningRedis({ args })
    await redis.command('EVAL', "for i = 1, 2000 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end", 0)
    const { link, countUp, errors } = await usableLink(redis.url)
    const whileItLoads = async () => {
      await until(() => errors.some((line) => line.startsWith(`reply ${redis.address}: LOADING`)))
      expect(link.isUsable(0)).toBe(false)
      await expect(countUp('edge:a')).rejects.toMatchObject({ outcome: 'refused', code: 'LOADING' })
      await redis.command('CONFIG', 'SET', 'key-load-delay', 0)
    }
    await Promise.all([redis.restart('kept'), whileItLoads()])
    await until(() => link.isUsable(0))
    expect(await countUp('edge:a')).toBe('1')
  })

  test('a replica is left for whoever answers at that address next', async () => {
    const redis = shared()
    const { link, countUp, circuits } = await usableLink(redis.url)
    const connections = async () => Number(await redis.info('total_connections_received'))
    await redis.command('REPLICAOF', '127.0.0.1', 1)
    const before = await connections()
    await expect(countUp('edge:a')).rejects.toMatchObject({ outcome: 'refused', code: 'READONLY' })
    await until(async () => (await connections()) > before)
    await redis.command('REPLICAOF', 'NO', 'ONE')
    await until(() => link.isUsable(0))
    expect(circuits.map((line) => line.split(' ')[1])).toEqual(['opened:', 'closed:'])
    expect(await countUp('edge:a')).toBe('1')
  })

  test('a Redis that stands still is missed though nobody asks it anything', async () => {
    const redis = shared()
    const { link, circuits, deadlines } = await usableLink(redis.url, BRIEF_MS)
    redis.pause()
    await deadlines.passUntil(BRIEF_MS, () => !link.isUsable(0))
    expect(circuits).toEqual([`${redis.address} opened: no answer within ${BRIEF_MS} ms`])
    redis.resume()
    await until(() => link.isUsable(0))
  })

  test('one that seldom probes by itself misses it at once when told to probe', async () => {
    const redis = shared()
    const { link, circuits, deadlines } = await usableLink(redis.url, BRIEF_MS, thisTest, NEVER_MS)
    redis.pause()
    link.probe()
    await deadlines.passUntil(BRIEF_MS, () => !link.isUsable(0))
    expect(circuits).toEqual([`${redis.address} opened: no answer within ${BRIEF_MS} ms`])
  })

  test('a silent connection is replaced', async () => {
    const redis = shared()
    const { countUp, errors, deadlines } = await usableLink(redis.url, BRIEF_MS)
    redis.pause()
    await expect(deadlines.passDuring(BRIEF_MS, countUp('edge:a'))).rejects.toMatchObject({ outcome: 'unknown' })
    await deadlines.passUntil(SILENCE_MS, () => errors.includes(`connection ${redis.address}: it is connected but silent`))
  })

  test('a Redis that comes late: first use waits no longer than it may, and it is used when it is there', async () => {
    const redis = shared()
    await redis.stop()
    const { link, circuits, deadlines } = openLink(redis.url)
    await deadlines.passDuring(1, link.firstUse(1))
    expect(link.isUsable(0)).toBe(false)
    await until(() => circuits.length === 1)
    expect(circuits[0]).toMatch(/opened: connect ECONNREFUSED/)
    await redis.start()
    await link.firstUse(600_000)
    expect(link.isUsable(0)).toBe(true)
    expect(circuits).toHaveLength(2)
  })

  test('a wrong password is told without it, and the link heals when the server takes it', async () => {
    const redis = await runningRedis({ password: 'right' })
    const { link, circuits, errors } = openLink(`redis://:w%40ong@${redis.address}`)
    await until(() => circuits.length === 1)
    expect(circuits[0]).toContain('WRONGPASS')
    await redis.command('CONFIG', 'SET', 'requirepass', 'w@ong')
    await until(() => link.isUsable(0))
    expect([...errors, ...circuits].join()).not.toContain('w@ong')
  })

  test('a missing password is told, and the link heals when none is needed', async () => {
    const redis = await runningRedis({ password: 'right' })
    const { link, circuits } = openLink(`redis://${redis.address}`)
    await until(() => circuits.length === 1)
    expect(circuits).toEqual([`${redis.address} opened: NOAUTH Authentication required.`])
    await redis.command('CONFIG', 'SET', 'requirepass', '')
    await until(() => link.isUsable(0))
  })

  test('a certificate that nobody vouches for is told', async () => {
    const { address } = await runningTls()
    const { circuits } = openLink(`rediss://${address}`)
    await until(() => circuits.length > 0)
    expect(circuits).toEqual([`${address} opened: self-signed certificate`])
  })

  // These look at the whole process, or keep it busy: nothing runs beside them.

  test('our own late event loop is not held against Redis', async () => {
    const redis = shared()
    const { link, countUp, circuits, errors, deadlines } = await usableLink(redis.url, BRIEF_MS)
    const early = countUp('edge:a')
    await new Promise(setImmediate) // it has left
    redis.standStillUntilServed()
    const late = countUp('edge:a') // and this one has not
    deadlines.pass(2 * BRIEF_MS)
    expect(await Promise.all([early, late])).toEqual(['1', '2'])
    expect({ isUsable: link.isUsable(0), circuits, errors }).toEqual({ isUsable: true, circuits: [], errors: [] })
  })

  test('our own late event loop is not held against an idle Redis that is probed', async () => {
    const redis = shared()
    const idle = await usableLink(redis.url, BRIEF_MS)
    const { roundTrips } = idle
    while (idle.roundTrips === roundTrips) {
      await sleep(50)
      redis.standStillUntilServed()
      idle.deadlines.pass(2 * BRIEF_MS)
    }
    expect({ circuits: idle.circuits, errors: idle.errors }).toEqual({ circuits: [], errors: [] })
  })

  test('a password that is not needed does no harm, and nothing is printed', async () => {
    const printed = vi.spyOn(console, 'warn')
    onTestFinished(() => printed.mockRestore())
    const redis = shared()
    const { countUp, errors } = await usableLink(`redis://:any@${redis.address}`)
    expect(await countUp('edge:a')).toBe('1')
    expect({ errors, printed: printed.mock.calls }).toEqual({ errors: [], printed: [] })
  })

  test('closing leaves no socket and no timer, whatever the link was doing', async () => {
    const redis = shared()
    const held = watchResources()
    const connected = await usableLink(redis.url)
    const failing = openLink(`redis://127.0.0.1:${await serverPort()}`)
    const inCluster = openLink(`redis+cluster://${redis.address}`)
    const connecting = openLink(redis.url)
    expect(held.size).toBeGreaterThan(0)
    await until(() => failing.circuits.length > 0 && inCluster.circuits.length > 0)
    const told = failing.circuits.length
    await Promise.all([connected, failing, inCluster, connecting].map(({ link }) => link.close()))
    await until(() => held.size === 0)
    expect(inCluster.circuits[0]).toContain('cluster support disabled')
    // That nobody asks any more is no sign that somebody answers.
    expect([failing.circuits.length, inCluster.circuits.length]).toEqual([told, 1])
  })
})

/** Sockets and timers that the link or its client makes from now on, by where they were made, until they are gone. */
function watchResources(): ReadonlyMap<number, string> {
  const held = new Map<number, string>()
  const hook = createHook({
    init(id, type) {
      const { stack } = new Error()
      if (/^(Timeout|TCPWRAP)$/.test(type) && /store\/redis|ioredis/.test(stack!)) held.set(id, `${type} ${stack}`)
    },
    destroy(id) {
      held.delete(id)
    },
  })
  hook.enable()
  onTestFinished(() => void hook.disable())
  return held
}
