import { beforeAll, describe, expect, test } from 'vitest'
import type { NearCallerJson } from '../../../src/admin/api/caller-types.ts'
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
    ['?polcy=p', 400, 'bad_request', 'unknown parameter "polcy"; expected policy, rule, budgets, since, limit'],
    ['?since=2h', 400, 'bad_request', 'since: expected a time within the last hour, because no more is kept, such as 30m or 1h; got "2h"'],
    [
      '?since=soon',
      400,
      'bad_request',
      'since: expected a duration such as 90s, 30m, 2h or 7d, or a time in UTC such as 2026-01-31T12:00:00Z, got "soon"',
    ],
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
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const second = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    const caller = (name: string) => ({ policy: 'p', rule: 'r', mode: 'enforce', values: { 'header:x-k': name } })
    const rejected = (name: string, count: number) => ({ ...caller(name), count, hour_count: count, first_at: second, last_at: second })
    const near = (name: string, remaining: number) => {
      return {
        ...caller(name),
        kind: 'bucket',
        period: null,
        unit: 'requests',
        level: expect.closeTo(remaining, 1),
        remaining,
        limit: 4,
        left_percent: 25 * remaining,
      }
    }
    expect(await top(edge)).toEqual({
      since: time,
      max_error: 0,
      complete: true,
      hour: { since: time, max_error: 0, complete: true },
      rejected: [rejected('bob', 5), rejected('alice', 2)],
      nearest: [near('alice', 0), near('bob', 0), near('carol', 1), near('dave', 3)],
    })
  })

  test('says since when a caller is rejected, for an hour, while counts of the last minutes are those of the last minutes', async () => {
    const clock = new ManualClock()
    const edge = await running({ bundle: KEYED, env: ADMIN_ENV, clock })
    await asks(edge, 4 + 2, 'alice')
    clock.advance(8 * 60_000 + 500)
    await asks(edge, 4 + 4, 'bob')
    await asks(edge, 1, 'alice')
    const startedAt = '2026-01-15T12:00:00Z'
    const later = '2026-01-15T12:08:00Z'
    const [alice, bob] = [{ values: { 'header:x-k': 'alice' } }, { values: { 'header:x-k': 'bob' } }]
    expect((await top(edge)).rejected).toMatchObject([
      { ...bob, count: 4, hour_count: 4, first_at: later, last_at: later },
      { ...alice, count: 3, hour_count: 3, first_at: startedAt, last_at: later },
    ])
    clock.advance(20 * 60_000)
    const { rejected, hour } = await top(edge)
    expect(rejected).toMatchObject([
      { ...bob, count: 0, hour_count: 4, first_at: later, last_at: later },
      { ...alice, count: 0, hour_count: 3, first_at: startedAt, last_at: later },
    ])
    expect(hour).toEqual({ since: '2026-01-15T12:00:00.000Z', max_error: 0, complete: true })
    // Since a time, from the beginning of its five minutes on; by default none of them is recent.
    const since = async (text: string) => (await askAdmin(edge.adminPort, 'GET', `top?since=${text}`)).json
    expect((await since('1h')).rejected).toMatchObject([
      { ...bob, count: 4, hour_count: 4 },
      { ...alice, count: 3, hour_count: 3 },
    ])
    const half = await since('2026-01-15T12:06:00Z')
    expect(half).toMatchObject({ since: expect.stringMatching(/^2026-01-15T12:0[1-6]:/), max_error: 0, complete: true })
    expect(half.rejected).toMatchObject([
      { ...bob, count: 4, hour_count: 4 },
      { ...alice, count: 1, hour_count: 3 },
    ])
    expect((await since('1m')).rejected).toMatchObject([{ count: 0 }, { count: 0 }])
    clock.advance(60 * 60_000)
    expect((await top(edge)).rejected).toEqual([])
  })

  test('lists callers of policies in shadow mode after the others, and says that they are', async () => {
    const rules = [bucketRule('r', ['header:x-k'], 10, 0.0001)]
    const edge = await running({ bundle: bundle(1, policy('a', { mode: 'shadow', rules }), policy('b', { rules })), env: ADMIN_ENV })
    await asks(edge, 1, 'alice')
    await asks(edge, 10, 'bob')
    const rows = (await top(edge)).nearest.map((row: NearCallerJson) => [row.mode, row.policy, row.values['header:x-k'], row.left_percent])
    expect(rows).toEqual([
      ['enforce', 'b', 'bob', 0],
      ['enforce', 'b', 'alice', 90],
      ['shadow', 'a', 'bob', 0],
      ['shadow', 'a', 'alice', 90],
    ])
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
