import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, type AdminResponse, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import { until } from '../../support/until.ts'
import { servingOn } from '../../support/workers/workers.ts'

const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 10)] }))

interface Login {
  readonly response: AdminResponse
  /** The cookie as a browser sends it back. */
  readonly cookie: string
  readonly csrf: string
}

async function login(port: number, headers: Readonly<Record<string, string>> = {}, actor?: string): Promise<Login> {
  const response = await askAdmin(port, 'POST', 'session', { token: undefined, body: { token: ADMIN_TOKEN, actor }, headers })
  return { response, cookie: setCookieOf(response).split(';')[0]!, csrf: response.json.csrf_token }
}

function setCookieOf({ headers }: AdminResponse): string {
  return (headers['set-cookie'] as string[])[0]!
}

/** Asks with a cookie and without the token. */
function askWith(cookie: string, port: number, method: string, path: string, headers = {}, body?: unknown): Promise<AdminResponse> {
  return askAdmin(port, method, path, { token: undefined, headers: { Cookie: cookie, ...headers }, ...(body !== undefined && { body }) })
}

describe('a session', () => {
  test('that is ended is ended on all workers, and others are not', async () => {
    const edge = await servingOn(2, BUNDLE, ADMIN_ENV)
    const port = adminPortOf(edge)
    const [mine, yours] = [await login(port), await login(port)]
    const ended = await askWith(mine.cookie, port, 'DELETE', 'session', { 'X-Edge-CSRF': mine.csrf })
    expect([ended.status, setCookieOf(ended)]).toEqual([204, 'edge_admin=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict'])
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
    expect((await askWith(cookie, there.adminPort, 'GET', 'session')).json.csrf_token).toBe(csrf)
    await askWith(cookie, here.adminPort, 'DELETE', 'session', { 'X-Edge-CSRF': csrf })
    await until(async () => (await askWith(cookie, there.adminPort, 'GET', 'session')).status === 401)
  })
})
