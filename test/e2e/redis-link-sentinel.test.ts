import { expect, test } from 'vitest'
import { until } from '../support/edge.ts'
import { openLink, usableLink } from '../support/recorded-link.ts'
import { MASTER_NAME, runningSentinels } from '../support/redis-sentinel.ts'
import { describeWithRedis } from '../support/redis-suite.ts'

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
    await until(() => allDead.circuits.length > 0 && unknown.circuits.length > 0)
    expect(allDead.circuits[0]).toMatch(`no sentinel leads to the master: failed to connect to sentinel ${group.addresses[1]}`)
    expect(unknown.circuits[0]).toMatch(/^nobody opened: no sentinel leads to the master: .* No such master with that name$/)
    await group.sentinels[1]!.start()
    await until(() => allDead.link.isUsable(0))
  })
})
