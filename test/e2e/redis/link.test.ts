import { expect, test } from 'vitest'
import { openLink, usableLink } from '../../support/redis/recorded-link.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { until } from '../../support/until.ts'

/** Of links whose calls are to be given up. It passes when the test says so. */
const BRIEF_MS = 200

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

  test('a user who may not run scripts is told so', async () => {
    const redis = shared()
    await redis.command('ACL', 'SETUSER', 'reader', 'on', '>pw', '~*', '+@read')
    const { link, circuits } = openLink(`redis://reader:pw@${redis.address}`)
    await until(() => circuits.length === 1)
    expect(circuits[0]).toContain('NOPERM')
    await redis.command('ACL', 'SETUSER', 'reader', '+@all')
    await until(() => link.isUsable(0))
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
})
