import { createHook } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openLink, usableLink } from '../../support/redis/recorded-link.ts'
import { redisOfSuite, runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { runningTls } from '../../support/redis/redis-tls.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

/** Of links whose calls are to be given up. It passes when the test says so. */
const BRIEF_MS = 200
/** A connection that is silent for so long is replaced. */
const SILENCE_MS = 1000

describeWithRedis('a link to one Redis', () => {
  const shared = redisOfSuite()

  test('runs scripts and commands; the text of a script goes over once', async () => {
    const redis = shared()
    const { link, countUp, circuits, errors } = await usableLink(redis.url)
    await redis.resetCalls()
    expect(await Promise.all([countUp('edge:a'), countUp('edge:b'), countUp('edge:a')])).toEqual(['1', '1', '2'])
    expect(await link.command('set', 'edge:größe', 'ü')).toBe('OK')
    expect(await link.command('get', 'edge:größe')).toBe('ü')
    const calls = await redis.calls()
    expect([calls.get('evalsha'), calls.get('eval')]).toEqual([3, undefined])
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('a script that Redis has lost is sent in full, and runs once', async () => {
    const redis = shared()
    const { countUp, circuits, errors } = await usableLink(redis.url)
    await redis.command('SCRIPT', 'FLUSH')
    expect(await Promise.all([countUp('edge:a'), countUp('edge:a')])).toEqual(['1', '2'])
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test('keys are all of one group, and the database is the one of the address', async () => {
    const redis = shared()
    const { link, countUp } = await usableLink(`${redis.url}/3`)
    expect([link.groupOf('edge:a'), link.groupOf('edge:b')]).toEqual([0, 0])
    await countUp('edge:a')
    expect(await redis.command('EVAL', "redis.call('SELECT', 3) return redis.call('GET', KEYS[1])", 1, 'edge:a')).toBe('1')
  })

  test('a database that is not there is an error, and no other one is used', async () => {
    const redis = shared()
    const { link, circuits } = openLink(`${redis.url}/99`)
    await until(() => circuits.length > 0)
    expect(circuits).toEqual([expect.stringContaining('DB index is out of range')])
    expect(link.isUsable(0)).toBe(false)
    expect(await redis.command('DBSIZE')).toBe(0)
  })

  test('an error reply is a refusal, opens the circuit, and a probe closes it', async () => {
    const redis = shared()
    const { link, countUp, circuits, errors } = await usableLink(redis.url)
    await redis.command('CONFIG', 'SET', 'maxmemory', 1)
    await expect(countUp('edge:a')).rejects.toMatchObject({ outcome: 'refused', code: 'OOM' })
    expect(link.isUsable(0)).toBe(false)
    expect(errors[0]).toMatch(`reply ${redis.address}: OOM`)
    // One probe at least is refused too.
    await until(() => errors.length > 1)
    await redis.command('CONFIG', 'SET', 'maxmemory', 0)
    await until(() => link.isUsable(0))
    expect(circuits).toEqual([expect.stringContaining('opened: OOM'), `${redis.address} closed: it answers`])
    expect(await redis.command('GET', 'edge:a')).toBe(null)
  })

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

  test('an error that speaks of the key alone leaves the circuit closed', async () => {
    const redis = shared()
    const { link, countUp, circuits } = await usableLink(redis.url)
    await redis.command('LPUSH', 'edge:list', 'x')
    await expect(countUp('edge:list')).rejects.toMatchObject({ outcome: 'refused', code: 'WRONGTYPE' })
    expect({ isUsable: link.isUsable(0), circuits }).toEqual({ isUsable: true, circuits: [] })
  })

  test('a plain command that is refused leaves the circuit closed; one that gets no answer opens it', async () => {
    const redis = shared()
    await redis.command('ACL', 'SETUSER', 'edge', 'on', '>pw', '~*', '+@all', '-zadd')
    const { link, circuits, errors, deadlines } = await usableLink(`redis://edge:pw@${redis.address}`, BRIEF_MS)
    await expect(link.command('zadd', 'edge:z', '1', 'a')).rejects.toMatchObject({ outcome: 'refused', code: 'NOPERM' })
    expect(errors).toEqual([expect.stringContaining('NOPERM')])
    expect({ isUsable: link.isUsable(0), circuits }).toEqual({ isUsable: true, circuits: [] })
    redis.pause()
    const call = deadlines.passDuring(BRIEF_MS, link.command('get', 'edge:a'))
    await expect(call).rejects.toMatchObject({ outcome: 'unknown', code: 'timeout' })
    expect(link.isUsable(0)).toBe(false)
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

  test('a Redis that stands still: the call ends, the circuit opens, and what it did is done once', async () => {
    const redis = shared()
    const { link, countUp, circuits, errors, deadlines } = await usableLink(redis.url, BRIEF_MS)
    redis.pause()
    const call = deadlines.passDuring(BRIEF_MS, countUp('edge:a'))
    await expect(call).rejects.toMatchObject({ outcome: 'unknown', code: 'timeout' })
    expect(link.isUsable(0)).toBe(false)
    expect(circuits).toEqual([`${redis.address} opened: no answer within ${BRIEF_MS} ms`])
    expect(errors[0]).toBe(`timeout ${redis.address}: no answer within ${BRIEF_MS} ms`)
    redis.resume()
    await until(() => link.isUsable(0))
    expect(await redis.command('GET', 'edge:a')).toBe('1')
    expect(circuits.map((line) => line.split(' ')[1])).toEqual(['opened:', 'closed:'])
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

  test('a silent connection is replaced', async () => {
    const redis = shared()
    const { countUp, errors, deadlines } = await usableLink(redis.url, BRIEF_MS)
    redis.pause()
    await expect(deadlines.passDuring(BRIEF_MS, countUp('edge:a'))).rejects.toMatchObject({ outcome: 'unknown' })
    await deadlines.passUntil(SILENCE_MS, () => errors.includes(`connection ${redis.address}: it is connected but silent`))
  })

  test('a call without a connection is not sent, then or later', async () => {
    const redis = shared()
    const { link, countUp, circuits } = await usableLink(redis.url)
    await redis.stop()
    await until(() => circuits.length === 1)
    await expect(countUp('edge:a')).rejects.toMatchObject({ outcome: 'not_sent', code: 'not_connected' })
    await redis.start()
    await until(() => link.isUsable(0))
    expect(await redis.command('GET', 'edge:a')).toBe(null)
    expect(await countUp('edge:a')).toBe('1')
    expect(circuits.map((line) => line.split(' ')[1])).toEqual(['opened:', 'closed:'])
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
    expect(circuits).toEqual([`${redis.address} opened: NOAUTH a password is needed`])
    await redis.command('CONFIG', 'SET', 'requirepass', '')
    await until(() => link.isUsable(0))
  })

  test('a user who may not run scripts is told so', async () => {
    const redis = shared()
    await redis.command('ACL', 'SETUSER', 'reader', 'on', '>pw', '~*', '+@read')
    const { link, circuits } = openLink(`redis://reader:pw@${redis.address}`)
    await until(() => circuits.length === 1)
    expect(circuits[0]).toContain('NOPERM')
    await redis.command('ACL', 'SETUSER', 'reader', '+@all')
    await until(() => link.isUsable(0))
  })

  test('a certificate that nobody vouches for is told', async () => {
    const { address } = await runningTls()
    const { circuits } = openLink(`rediss://${address}`)
    await until(() => circuits.length > 0)
    expect(circuits).toEqual([`${address} opened: self-signed certificate`])
  })

  test('a name that nobody knows is told', async () => {
    const { circuits } = openLink('redis://nobody.invalid')
    await until(() => circuits.length > 0)
    expect(circuits[0]).toMatch(/^nobody\.invalid:6379 opened: getaddrinfo E\w+ nobody\.invalid$/)
  })

  test('closing ends pending calls, with an unknown outcome, and the connection', async () => {
    const redis = shared()
    const { link, countUp, circuits } = await usableLink(redis.url)
    redis.pause()
    const calls = [countUp('edge:a'), link.command('get', 'edge:a')]
    await new Promise(setImmediate)
    calls.push(countUp('edge:a')) // not sent yet, but on its way
    const outcomes = Promise.all(calls.map((call) => call.catch((error) => error.outcome)))
    await link.close()
    expect(await outcomes).toEqual(['unknown', 'unknown', 'unknown'])
    redis.resume()
    await expect(countUp('edge:a')).rejects.toMatchObject({ outcome: 'not_sent' })
    await until(async () => !String(await redis.command('CLIENT', 'LIST')).includes('name=edge'))
    expect({ isUsable: link.isUsable(0), circuits }).toEqual({ isUsable: false, circuits: [] })
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
