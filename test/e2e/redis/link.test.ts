import { createHook } from 'node:async_hooks'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openLink, usableLink } from '../../support/redis/recorded-link.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { runningTls } from '../../support/redis/redis-tls.ts'
import { standStill } from '../../support/redis/stand-still.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

/** Long enough for a Redis on a busy machine. */
const BRIEF_MS = 200
const AMPLE_MS = 1000

describeWithRedis('a link to one Redis', () => {
  test.concurrent('runs scripts and commands; the text of a script goes over once', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, countUp, circuits, errors } = await usableLink(redis.url, AMPLE_MS, owner)
    await redis.resetCalls()
    expect(await Promise.all([countUp('edge:a'), countUp('edge:b'), countUp('edge:a')])).toEqual(['1', '1', '2'])
    expect(await link.command('set', 'edge:größe', 'ü')).toBe('OK')
    expect(await link.command('get', 'edge:größe')).toBe('ü')
    const calls = await redis.calls()
    expect([calls.get('evalsha'), calls.get('eval')]).toEqual([3, undefined])
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test.concurrent('a script that Redis has lost is sent in full, and runs once', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { countUp, circuits, errors } = await usableLink(redis.url, AMPLE_MS, owner)
    await redis.command('SCRIPT', 'FLUSH')
    expect(await Promise.all([countUp('edge:a'), countUp('edge:a')])).toEqual(['1', '2'])
    expect({ circuits, errors }).toEqual({ circuits: [], errors: [] })
  })

  test.concurrent('keys are all of one group, and the database is the one of the address', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, countUp } = await usableLink(`${redis.url}/3`, AMPLE_MS, owner)
    expect([link.groupOf('edge:a'), link.groupOf('edge:b')]).toEqual([0, 0])
    await countUp('edge:a')
    expect(await redis.command('EVAL', "redis.call('SELECT', 3) return redis.call('GET', KEYS[1])", 1, 'edge:a')).toBe('1')
  })

  test.concurrent('a database that is not there is an error, and no other one is used', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, circuits } = openLink(`${redis.url}/99`, AMPLE_MS, owner)
    await until(() => circuits.length > 0)
    expect(circuits).toEqual([expect.stringContaining('DB index is out of range')])
    expect(link.isUsable(0)).toBe(false)
    expect(await redis.command('DBSIZE')).toBe(0)
  })

  test.concurrent('an error reply is a refusal, opens the circuit, and a probe closes it', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, countUp, circuits, errors } = await usableLink(redis.url, AMPLE_MS, owner)
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

  test.concurrent('a Redis that is loading its data is not used before it has', async (owner) => {
    // It loads for ten seconds, unless it is told to hurry.
    const args = ['--loading-process-events-interval-bytes', '1024', '--key-load-delay', '5000']
    const redis = await runningRedis({ args }, owner)
    await redis.command('EVAL', "for i = 1, 2000 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end", 0)
    const { link, countUp, errors } = await usableLink(redis.url, AMPLE_MS, owner)
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

  test.concurrent('an error that speaks of the key alone leaves the circuit closed', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, countUp, circuits } = await usableLink(redis.url, AMPLE_MS, owner)
    await redis.command('LPUSH', 'edge:list', 'x')
    await expect(countUp('edge:list')).rejects.toMatchObject({ outcome: 'refused', code: 'WRONGTYPE' })
    expect({ isUsable: link.isUsable(0), circuits }).toEqual({ isUsable: true, circuits: [] })
  })

  test.concurrent('a plain command that is refused leaves the circuit closed; one that gets no answer opens it', async (owner) => {
    const redis = await runningRedis({}, owner)
    await redis.command('ACL', 'SETUSER', 'edge', 'on', '>pw', '~*', '+@all', '-zadd')
    const { link, circuits, errors } = await usableLink(`redis://edge:pw@${redis.address}`, BRIEF_MS, owner)
    await expect(link.command('zadd', 'edge:z', '1', 'a')).rejects.toMatchObject({ outcome: 'refused', code: 'NOPERM' })
    expect(errors).toEqual([expect.stringContaining('NOPERM')])
    expect({ isUsable: link.isUsable(0), circuits }).toEqual({ isUsable: true, circuits: [] })
    redis.pause()
    await expect(link.command('get', 'edge:a')).rejects.toMatchObject({ outcome: 'unknown', code: 'timeout' })
    expect(link.isUsable(0)).toBe(false)
    redis.resume()
  })

  test.concurrent('a replica is left for whoever answers at that address next', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, countUp, circuits } = await usableLink(redis.url, AMPLE_MS, owner)
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

  test.concurrent('a Redis that stands still: the call ends, the circuit opens, and what it did is done once', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, countUp, circuits, errors } = await usableLink(redis.url, BRIEF_MS, owner)
    redis.pause()
    const call = countUp('edge:a')
    await expect(call).rejects.toMatchObject({ outcome: 'unknown', code: 'timeout' })
    expect(link.isUsable(0)).toBe(false)
    expect(circuits).toEqual([`${redis.address} opened: no answer within ${BRIEF_MS} ms`])
    expect(errors[0]).toBe(`timeout ${redis.address}: no answer within ${BRIEF_MS} ms`)
    redis.resume()
    await until(() => link.isUsable(0))
    expect(await redis.command('GET', 'edge:a')).toBe('1')
    // On a busy machine a later probe may be late, too.
    expect(circuits.slice(0, 2).map((line) => line.split(' ')[1])).toEqual(['opened:', 'closed:'])
  })

  test.concurrent('a Redis that stands still is missed though nobody asks it anything', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, circuits } = await usableLink(redis.url, BRIEF_MS, owner)
    redis.pause()
    await until(() => !link.isUsable(0))
    // On a busy machine a probe before that may have been late, too.
    expect(circuits.at(-1)).toBe(`${redis.address} opened: no answer within ${BRIEF_MS} ms`)
    redis.resume()
    await until(() => link.isUsable(0))
  })

  test.concurrent('a silent connection is replaced', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { countUp, errors } = await usableLink(redis.url, BRIEF_MS, owner)
    redis.pause()
    await expect(countUp('edge:a')).rejects.toMatchObject({ outcome: 'unknown' })
    await until(() => errors.includes(`connection ${redis.address}: it is connected but silent`))
    redis.resume()
  })

  test.concurrent('a call without a connection is not sent, then or later', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, countUp, circuits } = await usableLink(redis.url, AMPLE_MS, owner)
    await redis.stop()
    await until(() => circuits.length === 1)
    await expect(countUp('edge:a')).rejects.toMatchObject({ outcome: 'not_sent', code: 'not_connected' })
    await redis.start()
    await until(() => link.isUsable(0))
    expect(await redis.command('GET', 'edge:a')).toBe(null)
    expect(await countUp('edge:a')).toBe('1')
    expect(circuits.map((line) => line.split(' ')[1])).toEqual(['opened:', 'closed:'])
  })

  test.concurrent('a Redis that comes late: first use waits no longer than it may, and it is used when it is there', async (owner) => {
    const redis = await runningRedis({}, owner)
    await redis.stop()
    const { link, circuits } = openLink(redis.url, AMPLE_MS, owner)
    await link.firstUse(1)
    expect(link.isUsable(0)).toBe(false)
    await until(() => circuits.length === 1)
    expect(circuits[0]).toMatch(/opened: connect ECONNREFUSED/)
    await redis.start()
    await link.firstUse(600_000)
    expect(link.isUsable(0)).toBe(true)
    expect(circuits).toHaveLength(2)
  })

  test.concurrent('a wrong password is told without it, and the link heals when the server takes it', async (owner) => {
    const redis = await runningRedis({ password: 'right' }, owner)
    const { link, circuits, errors } = openLink(`redis://:w%40ong@${redis.address}`, AMPLE_MS, owner)
    await until(() => circuits.length === 1)
    expect(circuits[0]).toContain('WRONGPASS')
    await redis.command('CONFIG', 'SET', 'requirepass', 'w@ong')
    await until(() => link.isUsable(0))
    expect([...errors, ...circuits].join()).not.toContain('w@ong')
  })

  test.concurrent('a missing password is told, and the link heals when none is needed', async (owner) => {
    const redis = await runningRedis({ password: 'right' }, owner)
    const { link, circuits } = openLink(`redis://${redis.address}`, AMPLE_MS, owner)
    await until(() => circuits.length === 1)
    expect(circuits).toEqual([`${redis.address} opened: NOAUTH a password is needed`])
    await redis.command('CONFIG', 'SET', 'requirepass', '')
    await until(() => link.isUsable(0))
  })

  test.concurrent('a user who may not run scripts is told so', async (owner) => {
    const redis = await runningRedis({}, owner)
    await redis.command('ACL', 'SETUSER', 'reader', 'on', '>pw', '~*', '+@read')
    const { link, circuits } = openLink(`redis://reader:pw@${redis.address}`, AMPLE_MS, owner)
    await until(() => circuits.length === 1)
    expect(circuits[0]).toContain('NOPERM')
    await redis.command('ACL', 'SETUSER', 'reader', '+@all')
    await until(() => link.isUsable(0))
  })

  test.concurrent('a certificate that nobody vouches for is told', async (owner) => {
    const { address } = await runningTls(owner)
    const { circuits } = openLink(`rediss://${address}`, AMPLE_MS, owner)
    await until(() => circuits.length > 0)
    expect(circuits).toEqual([`${address} opened: self-signed certificate`])
  })

  test.concurrent('a name that nobody knows is told', async (owner) => {
    const { circuits } = openLink('redis://nobody.invalid', AMPLE_MS, owner)
    await until(() => circuits.length > 0)
    expect(circuits[0]).toMatch(/^nobody\.invalid:6379 opened: getaddrinfo E\w+ nobody\.invalid$/)
  })

  test.concurrent('closing ends pending calls, with an unknown outcome, and the connection', async (owner) => {
    const redis = await runningRedis({}, owner)
    const { link, countUp, circuits } = await usableLink(redis.url, 60_000, owner)
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
    const redis = await runningRedis()
    const { link, countUp, circuits, errors } = await usableLink(redis.url, BRIEF_MS)
    const early = countUp('edge:a')
    await new Promise(setImmediate) // it has left
    standStill(2 * BRIEF_MS)
    const late = countUp('edge:a') // and this one has not
    standStill(2 * BRIEF_MS)
    expect(await Promise.all([early, late])).toEqual(['1', '2'])
    expect({ isUsable: link.isUsable(0), circuits, errors }).toEqual({ isUsable: true, circuits: [], errors: [] })
  })

  test('our own late event loop is not held against an idle Redis that is probed', async () => {
    const redis = await runningRedis()
    const idle = await usableLink(redis.url, BRIEF_MS)
    const { roundTrips } = idle
    while (idle.roundTrips === roundTrips) {
      await new Promise(setImmediate)
      standStill(2 * BRIEF_MS)
    }
    expect({ circuits: idle.circuits, errors: idle.errors }).toEqual({ circuits: [], errors: [] })
  })

  test('a password that is not needed does no harm, and nothing is printed', async () => {
    const printed = vi.spyOn(console, 'warn')
    onTestFinished(() => printed.mockRestore())
    const redis = await runningRedis()
    const { countUp, errors } = await usableLink(`redis://:any@${redis.address}`)
    expect(await countUp('edge:a')).toBe('1')
    expect({ errors, printed: printed.mock.calls }).toEqual({ errors: [], printed: [] })
  })

  test('closing leaves no socket and no timer, whatever the link was doing', async () => {
    const redis = await runningRedis()
    const held = watchResources()
    const connected = await usableLink(redis.url)
    const failing = openLink(`redis://127.0.0.1:${await serverPort()}`)
    const inCluster = openLink(`redis+cluster://${redis.address}`)
    const connecting = openLink(redis.url)
    expect(held.size).toBeGreaterThan(0)
    await until(() => failing.circuits.length > 0 && inCluster.circuits.length > 0)
    const told = failing.circuits.length
    await Promise.all([connected, failing, inCluster, connecting].map(({ link }) => link.close()))
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate) // that it is gone is told a turn later
    expect([...held.values()]).toEqual([])
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
