import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { change, changesOf } from '../../support/admin/changes.ts'
import { bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { runningRedis } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { twoSharing } from '../../support/redis/sharing-edge.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const RULES = [bucketRule('per-key', ['header:x-k'], 1, 0.001), bucketRule('per-token', ['bearer'], 1, 0.001)]
const BUNDLE = bundle(1, policy('api', { rules: RULES }))
const ALICE = { policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' } }
const DIGEST = expect.stringMatching(/^[0-9a-f]{16}$/) as string

describe('POST bundles/announcements', () => {
  test('lets the change of the bundle say who published it and why, whether it is applied or refused', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const texts = [JSON.stringify(bundle(2)), JSON.stringify(bundle(1, policy('api', { rules: [] }))), JSON.stringify(bundle(3))]
    for (const [i, text] of texts.slice(0, 2).entries()) {
      const hash = createHash('sha256').update(text).digest('hex')
      expect(
        await askAdmin(edge.adminPort, 'POST', 'bundles/announcements', { body: { hash, reason: `because ${i}` }, actor: 'ada' }),
      ).toMatchObject({
        status: 204,
      })
      expect(edge.logged('bundle_announced')).toHaveLength(i + 1)
      await edge.publish(text)
    }
    await edge.publish(texts[2]!)
    expect(await changesOf(edge)).toMatchObject([
      { change: 'bundle_applied', after: '3', actor: null, reason: null },
      { change: 'bundle_refused', after: '2', actor: 'ada', reason: 'because 1', source: edge.bundlePath },
      { change: 'bundle_applied', after: '2', actor: 'ada', reason: 'because 0', source: edge.bundlePath },
      { change: 'bundle_applied', after: '1', actor: null },
    ])
    const { json } = await askAdmin(edge.adminPort, 'GET', 'events/recent?event=bundle_announced')
    expect(json.events).toMatchObject([{ actor: 'ada', reason: 'because 0' }, { actor: 'ada' }])
  })

  test.each([
    [{ reason: 'x' }, 'bad_request', 'hash: expected the sha256 of the bundle in 64 hexadecimal digits, got undefined'],
    [{ hash: 'A'.repeat(64), reason: 'x' }, 'bad_request', 'hash: expected'],
    [{ hash: 'a'.repeat(64) }, 'missing_reason', 'reason: missing'],
    [{ hash: 'a'.repeat(64), reason: 'x', version: '2' }, 'bad_request', 'unknown fields: "version"'],
  ])('refuses %j', async (body, code, message) => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const { status, json } = await askAdmin(edge.adminPort, 'POST', 'bundles/announcements', { body })
    expect({ status, code: json.error.code }).toEqual({ status: 400, code })
    expect(json.error.message).toContain(message)
  })
})

test('credentials that are read in clear are an event and a change, with who reads them', async () => {
  const secret = matching({ bearer: 'hunter2' }, bucketRule('vip', ['bearer'], 9))
  const edge = await running({ bundle: bundle(1, policy('p', { rules: [secret] })), env: ADMIN_ENV })
  await change(edge, 'GET', 'bundles/1')
  await change(edge, 'GET', 'bundles/1?credentials=clear', undefined, 'eve')
  expect(await changesOf(edge)).toMatchObject([{ change: 'bundle_text_read', actor: 'eve', id: '1' }, { change: 'bundle_applied' }])
  const { json } = await askAdmin(edge.adminPort, 'GET', 'events/recent?event=bundle_text_read')
  expect(json.events).toMatchObject([{ event: 'bundle_text_read', version: '1', actor: 'eve' }])
})

describe('GET changes', () => {
  test('says who changed what and why, the newest first', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    await edge.publish(bundle(2, policy('api', { rules: RULES })))
    await edge.publish(bundle(1, policy('api', { rules: RULES })))
    const first = await change(edge, 'POST', 'overrides', { ...ALICE, multiply: 3, until: '2h', reason: 'a launch' })
    const second = await change(edge, 'POST', 'overrides', { ...ALICE, multiply: 5, until: '1h', reason: 'more', replace: first }, 'bob')
    await change(edge, 'PATCH', `overrides/${second}`, { block: true, until: '3h', reason: 'too much' }, 'max')
    await change(edge, 'DELETE', `overrides/${second}?reason=over`, undefined, 'eve')
    await change(edge, 'POST', 'counters/reset', { ...ALICE, reason: 'sorry' })
    const of = { policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' } }
    expect(await changesOf(edge)).toMatchObject([
      { change: 'counter_reset', ...of, actor: 'ada', reason: 'sorry', id: null },
      { change: 'override_ended', ...of, id: second, actor: 'eve', reason: 'over', before: 'block', after: null },
      {
        change: 'override_edited',
        ...of,
        id: second,
        actor: 'max',
        reason: 'too much',
        before: 'multiply 5',
        after: 'block',
        detail: expect.stringMatching(/^until was \d{4}-/) as string,
      },
      {
        change: 'override_set',
        ...of,
        id: second,
        actor: 'bob',
        reason: 'more',
        before: 'multiply 3',
        after: 'multiply 5',
        detail: `replaces override ${first}`,
      },
      { change: 'override_set', ...of, id: first, actor: 'ada', reason: 'a launch', before: null, after: 'multiply 3', detail: null },
      {
        change: 'bundle_refused',
        before: '2',
        after: '2',
        source: edge.bundlePath,
        detail: expect.stringContaining('bundle_version') as string,
      },
      { change: 'bundle_applied', before: '1', after: '2', source: edge.bundlePath, actor: null, policy: null },
      { change: 'bundle_applied', before: null, after: '1', source: edge.bundlePath },
    ])
    expect(await changesOf(edge, '?limit=1')).toHaveLength(1)
    expect(await changesOf(edge, '?since=1h')).toHaveLength(8)
    expect(await changesOf(edge, '?since=2999-01-01T00:00:00Z')).toEqual([])
  })

  test('has credentials as digests, and what is for all callers without values', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const values = { bearer: 'hunter2' }
    await change(edge, 'POST', 'overrides', { policy: 'api', rule: 'per-token', values, block: true, until: '2h', reason: 'x' })
    await change(edge, 'POST', 'counters/reset', { policy: 'api', rule: 'per-token', values, reason: 'x' })
    await change(edge, 'POST', 'overrides', { shadow_all: true, until: '2h', reason: 'x' })
    const changes = await changesOf(edge)
    expect(changes.slice(0, 3)).toMatchObject([
      { after: 'shadow_all', policy: null, rule: null, values: null },
      { change: 'counter_reset', values: { bearer: DIGEST } },
      { after: 'block', values: { bearer: DIGEST } },
    ])
    expect(JSON.stringify(changes)).not.toContain('hunter2')
  })

  test('has what expired, and after a restart the overrides that are in force again', async () => {
    const env = { ...ADMIN_ENV, EDGE_STATE_FILE: `${await scratchDirectory()}/state` }
    const edge = await running({ bundle: BUNDLE, env })
    const id = await change(edge, 'POST', 'overrides', { ...ALICE, unlimited: true, until: '1s', reason: 'short' })
    const kept = await change(edge, 'POST', 'overrides', { shadow_all: true, until: '2h', reason: 'long' })
    const ended = async () => (await changesOf(edge)).find(({ change: name }) => name === 'override_ended')
    await until(async () => (await ended()) !== undefined)
    expect(await ended()).toMatchObject({ id, actor: 'ada', before: 'unlimited', detail: 'it has expired' })
    await edge.stop()
    const again = await running({ bundle: BUNDLE, env })
    const found = (await changesOf(again)).filter(({ change: name }) => name === 'override_set')
    expect(found).toMatchObject([{ id: kept, actor: 'ada', reason: 'long', after: 'shadow_all' }])
  })

  test('has nothing of a request that was refused', async () => {
    const edge = await running({ bundle: BUNDLE, env: ADMIN_ENV })
    const before = await changesOf(edge)
    for (const [path, body] of [
      ['counters/reset', { ...ALICE, values: {}, reason: 'x' }],
      ['counters/reset', ALICE],
      ['overrides', { ...ALICE, multiply: 0, until: '1h', reason: 'x' }],
    ] as const)
      expect((await askAdmin(edge.adminPort, 'POST', path, { body })).status).toBe(400)
    expect(await changesOf(edge)).toEqual(before)
  })
})

describeWithRedis('the changes of a fleet', () => {
  test('an override of another instance is listed with who set it and who ended it', async () => {
    const redis = await runningRedis()
    const [here, there] = await twoSharing(redis.url, { bundle: BUNDLE, env: ADMIN_ENV })
    const id = await change(there, 'POST', 'overrides', { ...ALICE, multiply: 3, until: '2h', reason: 'a launch' }, 'bob')
    await until(async () => (await changesOf(here)).some((entry) => entry['id'] === id))
    await change(there, 'DELETE', `overrides/${id}?reason=over`, undefined, 'eve')
    await until(async () => (await changesOf(here)).filter((entry) => entry['id'] === id).length === 2)
    const found = (await changesOf(here)).filter((entry) => entry['id'] === id)
    expect(found).toMatchObject([
      { change: 'override_ended', actor: 'eve', reason: 'over', values: ALICE.values },
      { change: 'override_set', actor: 'bob', reason: 'a launch', values: ALICE.values },
    ])
  })
})
