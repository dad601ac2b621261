import { expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { steadyRequests, untilAnsweredByRedis } from '../support/fleet/steady-requests.ts'
import { MASTER_NAME, runningSentinels, type SentinelGroup } from '../support/redis/redis-sentinel.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { answersBy, HARDLY_ANY, twoSharing } from '../support/redis/sharing-edge.ts'
import { until } from '../support/until.ts'

const LIMIT = 100
/** Nothing comes back: not in the test's time, and not in the time that answers take, for which an own count allows. */
const STEADY = bundle(1, policy('p', { rules: [bucketRule('r', [], LIMIT, HARDLY_ANY)] }))

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
      // Something is left: one that comes back could hand it out to who has used up its own share meanwhile.
      await until(() => steady.admissions.length > LIMIT / 5)
      for (const edge of edges) expect((await answersBy(edge)).failureMode).toBe(0)

      await change(group)
      await untilAnsweredByRedis(edges)
      await steady.untilUsedUp()
      await steady.stop()

      const master = await group.master()
      expect(master.port).not.toBe(old)
      expect((await master.calls()).get('evalsha')).toBeGreaterThan(0)
      expect([...steady.statuses.keys()].sort()).toEqual([200, 429])
      for (const { tokens } of steady.byEdge) expect(tokens).toBeLessThanOrEqual(LIMIT)
      for (const edge of edges) {
        const told = edge.log.filter(({ event }) => String(event).startsWith('redis_')).map(({ event, node }) => [event, node])
        expect(told.at(-1)).toEqual(['redis_available', MASTER_NAME])
      }
    },
  )
})
