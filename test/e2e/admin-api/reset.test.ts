import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, type AdminResponse, askAdmin } from '../../support/admin/admin-client.ts'
import { blockRule, bucketRule, bundle, concurrencyRule, policy, unlimitedRule, windowRule } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const HARDLY_ANY = 0.0001
const LIMIT = 10
const KEYED = policy('api', {
  rules: [
    bucketRule('per-key', ['header:x-key'], LIMIT, HARDLY_ANY),
    windowRule('daily', ['header:x-daily'], { limit: 2, period: '1y' }),
    concurrencyRule('at-once', ['header:x-held'], 1, 3600),
    bucketRule('secret', ['bearer'], 1, HARDLY_ANY),
    blockRule('bad', { 'header:x-bad': '1' }),
    unlimitedRule('friend', { 'header:x-friend': '1' }),
  ],
})

function reset(port: number, key: string, more: object = {}): Promise<AdminResponse> {
  const body = { policy: 'api', rule: 'per-key', values: { 'header:x-key': key }, reason: 'a test', ...more }
  return askAdmin(port, 'POST', 'counters/reset', { body, actor: 'olga' })
}

describe('a reset', () => {
  const owner = thisSuite()
  let edge: Edge

  beforeAll(async () => {
    edge = await running({ bundle: bundle(1, KEYED), env: ADMIN_ENV }, owner)
  })

  test('makes the counters of one caller full, and no others', async () => {
    for (const key of ['alice', 'bob']) await edge.decideTimes(LIMIT, { fields: [['X-Key', key]] })
    const { status, json } = await reset(edge.adminPort, 'alice')
    expect(status).toBe(200)
    expect(json).toEqual({
      policy: 'api',
      rule: 'per-key',
      mode: 'enforce',
      values: { 'header:x-key': 'alice' },
      counters: [{ kind: 'bucket', level: LIMIT, limit: LIMIT, remaining: LIMIT, reset_s: 0 }],
      unit: 'requests',
      holds: null,
      override: null,
    })
    expect(await edge.decideTimes(LIMIT + 1, { fields: [['X-Key', 'alice']] })).toEqual([...Array(LIMIT).fill(200), 429])
    expect(await edge.decideTimes(1, { fields: [['X-Key', 'bob']] })).toEqual([429])
  })

  test('is for windows, holds and credentials too', async () => {
    const fields = [
      ['X-Daily', 'a'],
      ['X-Held', 'a'],
      ['Authorization', 'Bearer secret-token'],
    ] as const
    for (const [rule, key, value, field] of [
      ['daily', 'header:x-daily', 'a', fields[0]],
      ['at-once', 'header:x-held', 'a', fields[1]],
      ['secret', 'bearer', 'secret-token', fields[2]],
    ] as const) {
      await edge.decideTimes(2, { fields: [field] })
      expect(await edge.decideTimes(1, { fields: [field] })).toEqual([429])
      const { status, json } = await reset(edge.adminPort, '', { rule, values: { [key]: value } })
      expect([status, json.counters[0].level]).toEqual([200, json.counters[0].limit])
      expect(JSON.stringify(json)).not.toContain('secret-token')
      expect(await edge.decideTimes(1, { fields: [field] })).toEqual([200])
    }
  })

  test('is logged with who, what and why, and without values', async () => {
    const seen = edge.logged('counter_reset').length
    await reset(edge.adminPort, 'personal-value', { reason: ' the customer paid ' })
    const [line, ...more] = (await untilLogged(edge, 'counter_reset', seen + 1)).slice(seen)
    expect(line).toMatchObject({ actor: 'olga', reason: 'the customer paid', policy: 'api', rule: 'per-key' })
    expect(more).toEqual([])
    expect(JSON.stringify(edge.log)).not.toContain('personal-value')
  })

  test.each([
    ['no reason', { reason: undefined }, 400, 'missing_reason', 'reason: missing'],
    ['an empty reason', { reason: '  ' }, 400, 'missing_reason', 'reason: missing'],
    ['a reason that is no text', { reason: 1 }, 400, 'missing_reason', 'reason: expected a text'],
    ['a reason of two lines', { reason: 'a\nb' }, 400, 'bad_request', 'reason: expected one line'],
    ['a long reason', { reason: 'x'.repeat(1001) }, 400, 'bad_request', 'reason: expected at most 1000'],
    ['an unknown policy', { policy: 'x' }, 404, 'unknown_policy', 'there is no policy "x"'],
    ['an unknown rule', { rule: 'x' }, 404, 'unknown_rule', 'has no rule "x"'],
    ['missing values', { values: undefined }, 400, 'wrong_values', 'header:x-key is missing'],
    ['surplus values', { values: { 'header:x-key': 'a', bearer: 'b' } }, 400, 'wrong_values', '"bearer" is not one of them'],
    ['a block', { rule: 'bad', values: {} }, 400, 'bad_request', 'a rule with algorithm block has no counters'],
    ['a rule without a limit', { rule: 'friend', values: {} }, 400, 'bad_request', 'a rule with algorithm unlimited has no counters'],
    ['an unknown field', { until: '2h' }, 400, 'bad_request', 'unknown fields: "until"'],
  ])('of %s is refused with a sentence, and changes nothing', async (_what, part, status, code, message) => {
    const logged = edge.logged('counter_reset').length
    const refused = await reset(edge.adminPort, 'alice', part)
    expect([refused.status, refused.json.error.code]).toEqual([status, code])
    expect(refused.json.error.message).toContain(message)
    expect(edge.logged('counter_reset').length).toBe(logged)
  })
})

test('a reset that cannot be saved is in force, and says so', async () => {
  const directory = join(await scratchDirectory(), 'state')
  await mkdir(directory)
  const edge = await running({ bundle: bundle(1, KEYED), env: { ...ADMIN_ENV, EDGE_STATE_FILE: join(directory, 'counters') } })
  await edge.decideTimes(LIMIT, { fields: [['X-Key', 'alice']] })
  await rename(directory, `${directory}-elsewhere`) // at once: a save may be under way
  const { status, json } = await reset(edge.adminPort, 'alice')
  expect([status, json.error.code]).toEqual([503, 'store_unavailable'])
  expect(json.error.message).toContain('the counters are reset, but the state file could not be written')
  expect(edge.logged('counter_reset').length).toBe(1)
  expect((await edge.decide({ fields: [['X-Key', 'alice']] })).status).toBe(200)
  await mkdir(directory)
})
