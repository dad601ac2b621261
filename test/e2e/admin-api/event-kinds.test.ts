import { expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { EventClient } from '../../support/admin/event-client.ts'
import { blockRule, bucketRule, budgetRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, llmProxy } from '../../support/llm/llm-proxy.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { sharing } from '../../support/redis/sharing-edge.ts'
import type { OriginalRequest } from '../../support/service/edge.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const SECRET = 'sk-secret-of-alice'
const SHARED = { 'header:x-k': SECRET }
const RULE = { policy: 'api', rule: 'per-key' }
const RULES = [bucketRule('per-key', ['header:x-k'], 1, 0.001)]

function by(uri: string, value = SECRET): OriginalRequest {
  return { uri, fields: [['X-K', value]] }
}

test('rejects, would-rejects and budgets that are nearly spent', async () => {
  const money = { budget: 10, cost: { header: 'x-cost', default: 9 }, warn_at_percent: [80], period: '1d' }
  const edge = await running({
    env: ADMIN_ENV,
    bundle: bundle(
      1,
      policy('api', { selector: { pathPrefix: '/api' }, rules: RULES }),
      policy('trial', { selector: { pathPrefix: '/trial' }, mode: 'shadow', rules: RULES }),
      policy('money', { selector: { pathPrefix: '/money' }, rules: [budgetRule('dollars', ['header:x-k'], money)] }),
    ),
  })
  const client = await EventClient.open(edge.adminPort)
  for (const uri of ['/api', '/trial', '/money']) await edge.decideTimes(2, by(uri))
  expect((await client.untilNamed('reject'))[0]!.data).toMatchObject({ ...RULE, reason: 'token_bucket_exceeded' })
  expect((await client.untilNamed('would_reject'))[0]!.data).toMatchObject({ policy: 'trial', rule: 'per-key' })
  expect((await client.untilNamed('budget_warning'))[0]!.data).toMatchObject({
    policy: 'money',
    percent: 80,
    caller: expect.stringMatching(/^[0-9a-f]{16}$/) as string,
  })
  expect(JSON.stringify(client.events)).not.toContain(SECRET)
})

test('what operators change, and who tried without the token', async () => {
  const edge = await running({ env: ADMIN_ENV, bundle: bundle(1, policy('api', { rules: RULES })) })
  const client = await EventClient.open(edge.adminPort)
  const ask = (method: string, path: string, body?: object) => askAdmin(edge.adminPort, method, path, { body, actor: 'ops' })
  const set = await ask('POST', 'overrides', { ...RULE, values: SHARED, multiply: 3, until: '2h', reason: 'a launch' })
  expect(set.status).toBe(201)
  expect((await ask('PATCH', `overrides/${set.json.id}`, { multiply: 4, reason: 'too little' })).status).toBe(200)
  expect((await ask('DELETE', `overrides/${set.json.id}?reason=done`)).status).toBe(204)
  expect((await ask('POST', 'counters/reset', { ...RULE, values: SHARED, reason: 'a mistake' })).status).toBe(200)
  await askAdmin(edge.adminPort, 'GET', 'status', { token: 'a-wrong-token' })
  const { id } = set.json
  expect((await client.untilNamed('override_set'))[0]!.data).toMatchObject({ ...RULE, id, actor: 'ops', reason: 'a launch' })
  const edit = { id, actor: 'ops', reason: 'too little', change: 'multiply 4', change_before: 'multiply 3' }
  expect((await client.untilNamed('override_edited'))[0]!.data).toMatchObject({ ...RULE, ...edit })
  expect((await client.untilNamed('override_ended'))[0]!.data).toMatchObject({ ...RULE, id, actor: 'ops', reason: 'done' })
  expect((await client.untilNamed('counter_reset'))[0]!.data).toMatchObject({ ...RULE, actor: 'ops', reason: 'a mistake' })
  await client.untilNamed('admin_refused')
  expect(JSON.stringify(client.events)).not.toMatch(/sk-secret-of-alice|a-wrong-token/)
})

test.each([
  ['truncated', undefined],
  ['would_truncate', 'shadow'],
] as const)('streams that are %s', async (name, mode) => {
  const options = { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 4 }, env: ADMIN_ENV, ...(mode && { mode }) }
  const proxy = await llmProxy(await fakeLlm({ tokens: 30 }), options)
  const client = await EventClient.open(proxy.edge.adminPort)
  await proxy.stream(CHAT, { messages: HELLO })
  expect((await client.untilNamed(name))[0]!.data).toMatchObject({ policy: 'llm', rule: 'budget', max_completion_tokens: 10 })
})

test('streams that a block cuts', async () => {
  const proxy = await llmProxy(await fakeLlm({ tokens: 30, fail: 'stall', failAfterTokens: 2 }), { env: ADMIN_ENV })
  const client = await EventClient.open(proxy.edge.adminPort)
  const stream = proxy.open(CHAT, { stream: true, messages: HELLO })
  await stream.untilText('data:')
  await proxy.edge.publish(bundle(2, policy('incident', { rules: [blockRule('all', undefined, { cut_streams: true })] })))
  expect((await client.untilNamed('streams_cut'))[0]!.data).toMatchObject({ policy: 'incident', rule: 'all', streams: 1 })
})

test('a backend that fails', async () => {
  const proxy = await llmProxy({ port: 9 }, { env: ADMIN_ENV })
  const client = await EventClient.open(proxy.edge.adminPort)
  expect((await proxy.post(CHAT, { messages: HELLO })).status).toBe(502)
  expect((await client.untilNamed('backend_failed'))[0]!.data).toMatchObject({ reason: 'backend_refused' })
})

describeWithRedis('events of Redis', () => {
  test('that it is unreachable, and that it is back', async () => {
    const redis = await runningRedis()
    const edge = await sharing(redis.url, { env: ADMIN_ENV, bundle: bundle(1, policy('api', { rules: RULES })) })
    const client = await EventClient.open(edge.adminPort)
    await redis.stop()
    await edge.decide(by('/x'))
    expect((await client.untilNamed('redis_unavailable'))[0]!.data).toMatchObject({ worker: 1 })
    const { json } = await askAdmin(edge.adminPort, 'GET', 'status')
    expect(json.problems).toMatchObject([{ code: 'redis_unavailable' }])
    await redis.start()
    await client.untilNamed('redis_available')
    await until(async () => (await askAdmin(edge.adminPort, 'GET', 'status')).json.problems.length === 0)
  })
})
