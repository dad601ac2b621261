import { expect, test } from 'vitest'
import { askAdmin } from '../../support/admin/admin-client.ts'
import { operatedFleets } from '../../support/fleet/operated-fleets.ts'
import { BURST, decide, hasRedis, LONG_LEASES, RESET, RULES, reset, usedUp } from '../../support/fleet/operated-resets.ts'
import type { RedisServer } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { admitted } from '../../support/redis/sharing-edge.ts'
import { gateTo } from '../../support/redis/tcp-gate.ts'
import { until } from '../../support/until.ts'

describeWithRedis('a reset on one instance of a fleet', () => {
  let redis: RedisServer
  const fleet = operatedFleets(RULES, (started) => {
    redis = started
  })

  test.concurrent('wins over refusals that another one remembers', async (owner) => {
    const { instance } = fleet(owner)
    const [operated, other] = [await instance(LONG_LEASES), await instance(LONG_LEASES)]
    await usedUp(other)
    await reset(operated)
    await until(async () => (await decide(other, 1))[0] === 200)
    expect(admitted(await decide(other, BURST + 5))).toBe(BURST - 1)
  })

  test.concurrent('that Redis cannot be told of is refused, and nothing is reset', async (owner) => {
    const { instance } = fleet(owner)
    const gate = await gateTo(redis.port, owner)
    const operated = await instance({}, `redis://127.0.0.1:${gate.port}`)
    await usedUp(operated)
    gate.close()
    await until(async () => !(await hasRedis(operated)))
    const response = await askAdmin(operated.adminPort, 'POST', 'counters/reset', { body: RESET })
    expect([response.status, response.json.error.code]).toEqual([503, 'store_unavailable'])
    expect(await decide(operated, 2)).toEqual([429, 429])
  })
})
