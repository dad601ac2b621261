import { beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_ENV, askAdmin } from '../../support/admin/admin-client.ts'
import { asks, KEYED, top } from '../../support/admin/top.ts'
import { bucketRule, bundle, policy, windowRule } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'

describe('GET top', () => {
  const owner = thisSuite()
  let refusing: Edge
  beforeAll(async () => {
    refusing = await running({ bundle: KEYED, env: ADMIN_ENV }, owner)
  })

  test.each([
    ['?policy=z', 404, 'unknown_policy', 'there is no policy "z" in the active bundle'],
    ['?policy=p&rule=z', 404, 'unknown_rule', 'policy "p" has no rule "z"'],
    ['?rule=r', 400, 'bad_request', 'rule: name its policy too'],
    ['?policy=p&policy=q', 400, 'bad_request', 'policy is given more than once'],
    ['?polcy=p', 400, 'bad_request', 'unknown parameter "polcy"; expected policy, rule, limit'],
    ['?limit=0', 400, 'bad_request', 'limit: expected a whole number from 1 to 100, got "0"'],
    ['?limit=101', 400, 'bad_request', 'limit: expected a whole number from 1 to 100, got "101"'],
    ['?limit=1e1', 400, 'bad_request', 'limit: expected a whole number from 1 to 100, got "1e1"'],
  ])('refuses %s', async (query, status, code, message) => {
    expect(await askAdmin(refusing.adminPort, 'GET', `top${query}`)).toMatchObject({ status, json: { error: { code, message } } })
  })

  test('lists the callers that were rejected most, and those nearest to a limit, worst first', async () => {
    const edge = await running({ bundle: KEYED, env: ADMIN_ENV })
    await asks(edge, 4 + 2, 'alice')
    await asks(edge, 4 + 5, 'bob')
    await asks(edge, 3, 'carol')
    await asks(edge, 1, 'dave')
    expect(await top(edge)).toEqual({
      since: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      max_error: 0,
      complete: true,
      rejected: [
        { policy: 'p', rule: 'r', values: { 'header:x-k': 'bob' }, count: 5 },
        { policy: 'p', rule: 'r', values: { 'header:x-k': 'alice' }, count: 2 },
      ],
      nearest: [
        { policy: 'p', rule: 'r', values: { 'header:x-k': expect.stringMatching(/alice|bob/) }, kind: 'bucket', remaining: 0, limit: 4 },
        { policy: 'p', rule: 'r', values: { 'header:x-k': expect.stringMatching(/alice|bob/) }, kind: 'bucket', remaining: 0, limit: 4 },
        { policy: 'p', rule: 'r', values: { 'header:x-k': 'carol' }, kind: 'bucket', remaining: 1, limit: 4 },
        { policy: 'p', rule: 'r', values: { 'header:x-k': 'dave' }, kind: 'bucket', remaining: 3, limit: 4 },
      ],
    })
  })

  test('shows what callers have left at that moment: refilled, or in another window', async () => {
    const clock = new ManualClock()
    const rules = [bucketRule('bucket', ['header:x-k'], 4, 1), windowRule('window', ['header:x-k'], { limit: 4, period: '1m' })]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: ADMIN_ENV, clock })
    await asks(edge, 3, 'alice')
    const remaining = async () =>
      Object.fromEntries((await top(edge)).nearest.map((row: { rule: string; remaining: number }) => [row.rule, row.remaining]))
    expect(await remaining()).toEqual({ bucket: 1, window: 1 })
    clock.advance(1000)
    expect(await remaining()).toEqual({ bucket: 2, window: 1 })
    clock.advance(60_000)
    expect(await remaining()).toEqual({})
    await asks(edge, 1, 'alice')
    expect(await remaining()).toEqual({ bucket: 3, window: 3 })
  })
})
