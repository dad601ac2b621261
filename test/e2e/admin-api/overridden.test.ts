import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { explained } from '../../support/admin/explained.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { running } from '../../support/service/running.ts'

const HARDLY_ANY = 0.001

test('explain and counters name the override that holds for the caller, and its limit', async () => {
  const published = bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-key'], 10, HARDLY_ANY)] }))
  const edge = await running({ bundle: published, env: ADMIN_ENV })
  const of = { policy: 'api', rule: 'per-key', values: { 'header:x-key': 'alice' }, until: '1h', reason: 'a test' }
  const override = async (change: object): Promise<string> => {
    const { status, json } = await askAdmin(edge.adminPort, 'POST', 'overrides', { body: { ...of, ...change } })
    expect(status).toBe(201)
    return json.id
  }
  const explain = (key: string) => explained(edge.adminPort, { uri: '/', headers: { 'x-key': key } })
  const counters = async (key: string) =>
    (await askAdmin(edge.adminPort, 'GET', `counters?policy=api&rule=per-key&header:x-key=${key}`)).json

  await edge.decideTimes(10, { fields: [['X-Key', 'alice']] })
  expect((await explain('alice')).status).toBe(429)
  const raised = await override({ multiply: 3 })
  expect((await explain('alice')).policies[0].rules[0]).toMatchObject({
    override: raised,
    counters: [{ limit: 30, remaining: 20, wait_s: 0 }],
  })
  expect(await explain('alice')).toMatchObject({ status: 200, headers: { 'RateLimit-Limit': '30', 'RateLimit-Remaining': '19' } })
  expect(await counters('alice')).toMatchObject({ override: raised, counters: [{ limit: 30, remaining: 20 }] })
  for (const { override: other } of [await counters('bob'), (await explain('bob')).policies[0].rules[0]]) expect(other).toBeNull()

  const blocked = await override({ block: true, replace: raised })
  expect(await explain('alice')).toMatchObject({ action: 'reject', status: 403, reason: 'blocked', rule: 'per-key' })
  expect((await explain('alice')).policies[0].rules[0]).toMatchObject({ applied: true, override: blocked })
  const free = await override({ unlimited: true, replace: blocked })
  expect(await explain('alice')).toMatchObject({ action: 'allow', status: 200, headers: {} })
  expect((await explain('alice')).policies[0].rules[0]).toMatchObject({ applied: true, override: free, counters: [] })

  expect((await askAdmin(edge.adminPort, 'DELETE', `overrides/${free}?reason=over`)).status).toBe(204)
  const reset = { policy: 'api', rule: 'per-key', values: of.values, reason: 'a test' }
  const cut = await override({ set: { burst: 4 } })
  expect((await askAdmin(edge.adminPort, 'POST', 'counters/reset', { body: reset })).json).toMatchObject({
    override: cut,
    counters: [{ level: 4, limit: 4 }],
  })
  expect(await edge.decideTimes(5, { fields: [['X-Key', 'alice']] })).toEqual([200, 200, 200, 200, 429])

  const everything = { shadow_all: true, until: '1h', reason: 'a test' }
  expect((await askAdmin(edge.adminPort, 'POST', 'overrides', { body: everything })).status).toBe(201)
  expect(await explain('alice')).toMatchObject({ action: 'allow', status: 200, reason: 'token_bucket_exceeded', headers: {} })
})
