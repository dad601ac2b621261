import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { worstWindow } from '../../support/fleet/admissions.ts'
import { steadyRequests, untilAnsweredByRedis } from '../../support/fleet/steady-requests.ts'
import { MASTER_NAME, runningSentinels, type SentinelGroup } from '../../support/redis/redis-sentinel.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { answersBy, twoSharing } from '../../support/redis/sharing-edge.ts'
import { until } from '../../support/until.ts'

const BURST = 20
const PER_SECOND = 10
const STEADY = bundle(1, policy('p', { rules: [bucketRule('r', [], BURST, PER_SECOND)] }))

describeWithRedis('a master that sentinels guard', () => {
  test.concurrent.for([
    ['dies', (group: SentinelGroup) => group.killMaster()],
    ['is replaced', (group: SentinelGroup) => group.failOver()],
  ] as const)(
    '%s under steady requests: no error, no instance admits more than the limit, and the new one is used',
    async ([, change], owner) => {
      const group = await runningSentinels({}, owner)
      const url = `redis+sentinel://${group.addresses.join(',')}/${MASTER_NAME}`
      const edges = await twoSharing(url, { bundle: STEADY }, owner)
      const old = await group.masterPort()
      const steady = steadyRequests(edges, {}, owner)
      await until(() => (steady.statuses.get(429) ?? 0) > 10)
      for (const edge of edges) expect((await answersBy(edge)).failureMode).toBe(0)

      await change(group)
      await untilAnsweredByRedis(edges)
      await steady.stop()

      const master = await group.master()
      expect(master.port).not.toBe(old)
      expect(await master.command('DBSIZE')).toBeGreaterThan(0)
      expect([...steady.statuses.keys()].sort()).toEqual([200, 429])
      for (const { all } of steady.byEdge) expect(worstWindow(all, PER_SECOND / 1000).burst).toBeLessThan(BURST + 0.01)
      expect(worstWindow(steady.admissions, (2 * PER_SECOND) / 1000).burst).toBeLessThan(2 * BURST + 0.01)
      for (const edge of edges) {
        const told = edge.log.filter(({ event }) => String(event).startsWith('redis_')).map(({ event, node }) => [event, node])
        expect(told.at(-1)).toEqual(['redis_available', MASTER_NAME])
      }
    },
  )
})
