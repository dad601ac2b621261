import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf } from '../../support/admin/admin-client.ts'
import { askWith, BUNDLE, login, setCookieOf } from '../../support/admin/session.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

describe('a session', () => {
  test('that is ended is ended on all workers, and others are not', async () => {
    const edge = await servingOn(2, BUNDLE, ADMIN_ENV)
    const port = adminPortOf(edge)
    const [mine, yours] = [await login(port), await login(port)]
    const ended = await askWith(mine.cookie, port, 'DELETE', 'session', { 'X-Edge-CSRF': mine.csrf })
    expect([ended.status, setCookieOf(ended)]).toEqual([204, 'edge_admin=; Max-Age=0; Path=/admin/v1/; HttpOnly; SameSite=Strict'])
    // Each question has a connection of its own, and some worker accepts it.
    const statuses = async (cookie: string) =>
      new Set(await Promise.all(Array.from({ length: 12 }, async () => (await askWith(cookie, port, 'GET', 'session')).status)))
    expect([await statuses(mine.cookie), await statuses(yours.cookie)]).toEqual([new Set([401]), new Set([200])])
  })
})

describeWithRedis('a session of a fleet', () => {
  test('works on all instances, and ends on all', async () => {
    const redis = await runningRedis()
    const [here, there] = await twoSharing(redis.url, { bundle: BUNDLE, env: ADMIN_ENV })
    const { cookie, csrf } = await login(here.adminPort)
    const reset = { policy: 'p', rule: 'r', reason: 'a test' }
    expect((await askWith(cookie, there.adminPort, 'POST', 'counters/reset', { 'X-Edge-CSRF': csrf }, reset)).status).toBe(200)
    await askWith(cookie, here.adminPort, 'DELETE', 'session', { 'X-Edge-CSRF': csrf })
    await until(async () => (await askWith(cookie, there.adminPort, 'GET', 'session')).status === 401)
  })
})
