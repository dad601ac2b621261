import { expect, onTestFinished, test, vi } from 'vitest'
import { openLink, type RecordedLink, usableLink } from '../support/redis/recorded-link.ts'
import { MASTER_NAME, runningSentinels } from '../support/redis/redis-sentinel.ts'
import { type RedisServer, runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { until } from '../support/until.ts'

describeWithRedis('a link to a master that sentinels name', () => {
  test('goes to the next master when the old one dies', async () => {
    const group = await runningSentinels()
    const { link, countUp, circuits } = await usableLink(`redis+sentinel://${group.addresses.join(',')}/${MASTER_NAME}`)
    expect(await countUp('edge:a')).toBe('1')
    await group.killMaster()
    await until(() => link.isUsable(0))
    expect(Number(await countUp('edge:b'))).toBe(1)
    expect(await (await group.master()).command('GET', 'edge:b')).toBe('1')
    expect(circuits.map((line) => line.split(':')[0])).toEqual([`${MASTER_NAME} opened`, `${MASTER_NAME} closed`])
  })

  test('dead sentinels and unknown names are told, and do not end it', async () => {
    const group = await runningSentinels()
    await group.sentinels[0]!.stop()
    const oneDead = await usableLink(`redis+sentinel://${group.addresses.slice(0, 2).join(',')}/${MASTER_NAME}`)
    expect(await oneDead.countUp('edge:a')).toBe('1')
    await group.sentinels[1]!.stop()
    const allDead = openLink(`redis+sentinel://${group.addresses.slice(0, 2).join(',')}/${MASTER_NAME}`)
    const unknown = openLink(`redis+sentinel://${group.addresses[2]}/nobody`)
    await untilTold(allDead, `${MASTER_NAME}: no sentinel could provide the master: failed to connect to sentinel ${group.addresses[1]}`)
    await untilTold(unknown, /nobody: no sentinel could provide the master: .* No such master with that name$/m)
    for (const { circuits } of [allDead, unknown]) await until(() => circuits.length > 0)
    await group.sentinels[1]!.start()
    await until(() => allDead.link.isUsable(0))
  })

  test('sentinels get the password that is theirs; one that they do not need does no harm, and nothing is printed', async () => {
    const printed = vi.spyOn(console, 'warn')
    onTestFinished(() => printed.mockRestore())
    const redis = await runningRedis({ password: 'of the master' })
    const [guarded, free] = [await sentinelOf(redis.port, 'of the sentinel'), await sentinelOf(redis.port)]
    for (const { address } of [guarded, free]) {
      const url = `redis+sentinel://:of%20the%20master@${address}/${MASTER_NAME}`
      const { countUp, errors } = await usableLink(`${url}?sentinel_password=of%20the%20sentinel`)
      expect(Number(await countUp('edge:a'))).toBeGreaterThan(0)
      // A busy machine may be late.
      expect(errors.filter((error) => !error.includes('timed out'))).toEqual([])
    }
    const without = openLink(`redis+sentinel://:of%20the%20master@${guarded.address}/${MASTER_NAME}`)
    await untilTold(without, /no sentinel could provide the master: .*NOAUTH/)
    expect(printed.mock.calls).toEqual([])
  })
})

/** Waits until this is among its errors, whatever else it met before. */
function untilTold({ errors }: RecordedLink, text: string | RegExp): Promise<void> {
  return until(() => errors.some((error) => (typeof text === 'string' ? error.includes(text) : text.test(error))))
}

/** One alone, that names the server on this port. */
function sentinelOf(port: number, password?: string): Promise<RedisServer> {
  return runningRedis({
    files: { 'sentinel.conf': `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${port} 1\n` },
    configFile: 'sentinel.conf',
    args: ['--sentinel'],
    ...(password !== undefined && { password }),
  })
}
