import { beforeEach, expect, test } from 'vitest'
import { awayFromMidnight } from '../../support/redis/away-from-midnight.ts'
import { redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { asked, finish, gatedProxies, loseRedis, RESERVED, spent, twoProxies, USED } from '../../support/redis/shared-token-budgets.ts'
import { hasRedis } from '../../support/redis/sharing-edge.ts'
import { until } from '../../support/until.ts'

describeWithRedis('token budgets that two proxies share', () => {
  const shared = redisOfSuite()
  beforeEach(awayFromMidnight)

  test('what one reserves and settles, the other sees, minute and day', async () => {
    const { one, other, llm } = await twoProxies(shared())
    const { answer, call } = await asked(one, llm)
    expect(await other.held()).toEqual(spent(RESERVED))
    finish(call, USED)
    expect((await answer).status).toBe(200)
    await until(async () => (await other.held()).day === USED)
    expect([await one.spent(), await other.spent()]).toEqual([spent(USED), spent(USED)])
  })
})

describeWithRedis('a reservation and an outage', () => {
  const shared = redisOfSuite()
  beforeEach(awayFromMidnight)

  test('taken from Redis, used up while it is away: settled there when it is back, once', async () => {
    const { one, other, llm, gate } = await gatedProxies(shared())
    const { answer, call } = await asked(one, llm)
    await loseRedis(one.edge, gate)
    finish(call, USED)
    expect((await answer).status).toBe(200)
    await one.untilQuiet()
    expect(await other.held()).toEqual(spent(RESERVED))
    await gate.accept()
    await until(() => hasRedis(one.edge))
    // Comes after all that was kept, on the same connection.
    expect(await one.held()).toEqual(spent(USED))
    expect(await other.held()).toEqual(spent(USED))
    expect(await one.edge.metric('edge_redis_doubts_total{what="settlement"}')).toBe(0)
  })
})
