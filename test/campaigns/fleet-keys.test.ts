import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ADMIN_ENV, type AdminResponse, askAdmin } from '../support/admin/admin-client.ts'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { MASTER_NAME, runningSentinels, type SentinelGroup } from '../support/redis/redis-sentinel.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { sharing, twoSharing } from '../support/redis/sharing-edge.ts'
import type { Edge } from '../support/service/edge.ts'
import { untilLogged } from '../support/service/until-logged.ts'
import { newFolder } from '../support/state/state.ts'
import { until } from '../support/until.ts'

const OPTIONS = { bundle: bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-k'], 10)] })), env: ADMIN_ENV }
const BODY = { labels: { team: 'search' }, reason: 'a test' }

const create = (edge: Edge): Promise<AdminResponse> => askAdmin(edge.adminPort, 'POST', 'keys', { body: BODY })
const revoke = (edge: Edge, id: string): Promise<AdminResponse> => askAdmin(edge.adminPort, 'DELETE', `keys/${id}?reason=leaked`)
const statusOf = async (edge: Edge, id: string): Promise<string | undefined> =>
  (await askAdmin(edge.adminPort, 'GET', `keys/${id}`)).json.status

describeWithRedis('keys of a fleet', () => {
  test.concurrent('are known to all instances, changed and revoked by any, and to one that starts later', async (owner) => {
    const redis = await runningRedis({}, owner)
    const [one, other] = await twoSharing(redis.url, OPTIONS, owner)
    const { status, json } = await create(one)
    expect([status, json.durable]).toEqual([201, true])
    await until(async () => (await statusOf(other, json.id)) === 'active')
    expect((await revoke(other, json.id)).status).toBe(200)
    await until(async () => (await statusOf(one, json.id)) === 'revoked')
    const late = await sharing(redis.url, OPTIONS, owner)
    expect(await statusOf(late, json.id)).toBe('revoked')
  })

  test.concurrent('are those of the file at a start without Redis, and Redis has what the file has after it was lost', async (owner) => {
    const redis = await runningRedis({}, owner)
    const env = { ...ADMIN_ENV, EDGE_KEYS_FILE: join(await newFolder(), 'keys') }
    const first = await sharing(redis.url, { ...OPTIONS, env }, owner)
    const { id } = (await create(first)).json
    await first.stop()
    await redis.stop()
    const alone = await sharing(redis.url, { ...OPTIONS, env: { ...env, EDGE_REDIS_TIMEOUT_MS: '50' } }, owner)
    expect(await statusOf(alone, id)).toBe('active')
    expect((await revoke(alone, id)).json.error).toMatchObject({ code: 'store_unavailable' })
    expect(await statusOf(alone, id)).toBe('active')
    await redis.start()
    const other = await sharing(redis.url, OPTIONS, owner)
    await until(async () => (await statusOf(other, id)) === 'active')
  })

  test.concurrent('for which an instance has no room are reported there, and it serves those that it has', async (owner) => {
    const redis = await runningRedis({}, owner)
    const large = await sharing(redis.url, OPTIONS, owner)
    const first = (await create(large)).json.id
    const small = await sharing(redis.url, { ...OPTIONS, env: { ...ADMIN_ENV, EDGE_MAX_KEYS: '1' } }, owner)
    await create(large)
    await untilLogged(small, 'keys_unreadable', 1)
    expect(await statusOf(small, first)).toBe('active')
    expect((await revoke(large, first)).status).toBe(200)
    await until(async () => (await statusOf(small, first)) === 'revoked')
  })

  test.concurrent.for([
    ['dies', (group: SentinelGroup) => group.killMaster()],
    ['is replaced', (group: SentinelGroup) => group.failOver()],
  ] as const)('are kept and revoked everywhere while the master %s', async ([, change], owner) => {
    const group = await runningSentinels({}, owner)
    const url = `redis+sentinel://${group.addresses.join(',')}/${MASTER_NAME}`
    const [one, other] = await twoSharing(url, OPTIONS, owner)
    const made = await Promise.all(Array.from({ length: 20 }, () => create(one)))
    const ids = made.map(({ json }) => json.id as string)
    const [before, ...rest] = ids
    expect((await revoke(one, before!)).status).toBe(200)
    const changed = change(group)
    const revoked = new Set([before!])
    for (const id of rest.slice(0, 10)) {
      // Until Redis has it, nothing is confirmed, and an operator tries again.
      await until(async () => (await revoke(one, id)).status === 200)
      revoked.add(id)
    }
    await changed
    for (const id of ids) {
      const expected = revoked.has(id) ? 'revoked' : 'active'
      await until(async () => (await statusOf(other, id)) === expected && (await statusOf(one, id)) === expected)
    }
    const late = await sharing(url, OPTIONS, owner)
    for (const id of ids) await until(async () => (await statusOf(late, id)) === (revoked.has(id) ? 'revoked' : 'active'))
  })
})
