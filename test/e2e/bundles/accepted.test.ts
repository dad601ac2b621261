import { describe, expect, test } from 'vitest'
import { offer } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

// Ten thousand policies: accepted.slow.test.ts
describe('unknown fields', () => {
  test('refuse the bundle, each by its path, and the one before stays active', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 3)] })) })
    const rule = bucketRule('r', [], 30) as Record<string, unknown>
    const odd = policy('p', {
      rules: [{ ...rule, matches: { plan: 'free' }, algorithm_config: { tokens_per_second: 1, burst: 3, burts: 9 } }],
    })
    const content = { kill_switches: [], bundle_version: 2, policies: [{ ...odd, owner: 'team-a' }] }
    expect(await offer(edge, content)).toMatchObject({
      event: 'bundle_refused',
      active_version: '1',
      problems: [
        'unknown field "kill_switches" (put your own notes into "metadata") (line 1, column 2)',
        'policies[0]: unknown field "owner" (put your own notes into "metadata") (line 1, column 226)',
        'policies[0].spec.rules[0]: unknown field "matches" (put your own notes into "metadata") (line 1, column 197)',
        'policies[0].spec.rules[0].algorithm_config: unknown field "burts": did you mean "burst"? (line 1, column 186)',
      ],
    })
    expect((await edge.decide()).headers['ratelimit-limit']).toBe('3')
  })

  test('that other readers of bundles know are warned of, and the bundle is applied', async () => {
    const edge = await running({ bundle: bundle(1) })
    const rule = { ...bucketRule('r', [], 3), description: 'all callers' }
    const noted = { ...policy('p', { rules: [rule] }), name: 'everybody', labels: { team: 'a' } }
    const content = { issued_at: '2026-01-01', expires_at: null, 'x-ticket': 7, ...bundle(2, noted) }
    expect(await offer(edge, content)).toMatchObject({ event: 'bundle_applied', version: '2' })
    const [warned] = await untilLogged(edge, 'bundle_warnings')
    expect(warned).toMatchObject({ level: 40, path: edge.bundlePath })
    expect(warned!['warnings']).toEqual([
      'unknown field "issued_at": it is ignored (line 1, column 2)',
      'unknown field "expires_at": it is ignored (line 1, column 27)',
      'unknown field "x-ticket": it is ignored (line 1, column 45)',
      'policies[0]: unknown field "name": it is ignored (line 1, column 255)',
      'policies[0]: unknown field "labels": it is ignored (line 1, column 274)',
      'policies[0].spec.rules[0]: unknown field "description": it is ignored (line 1, column 224)',
    ])
    expect((await edge.decide()).headers['ratelimit-limit']).toBe('3')
  })

  test('a limit that clients escape by leaving out its key is warned of in the log, and applied', async () => {
    const edge = await running({ bundle: bundle(1) })
    const limited = policy('p', { rules: [bucketRule('r', ['header:x-team'], 3)] })
    expect(await offer(edge, bundle(2, limited))).toMatchObject({ event: 'bundle_applied', version: '2' })
    expect(await untilLogged(edge, 'bundle_warnings')).toMatchObject([
      { level: 40, warnings: [expect.stringContaining('a client that leaves out header:x-team is not limited: write "match": ')] },
    ])
    expect((await edge.decide({ fields: [['X-Team', 'a']] })).headers['ratelimit-limit']).toBe('3')
    expect((await edge.decide()).headers['ratelimit-limit']).toBeUndefined()
  })

  test('in metadata, on bundle, policy and rule, are no unknown fields', async () => {
    const metadata = { owner: 'team-a', matches: { plan: 'free' } }
    const edge = await running({ bundle: bundle(1) })
    const noted = { ...policy('p', { rules: [{ ...bucketRule('r', [], 3), metadata }] }), metadata }
    expect(await offer(edge, { ...bundle(2, noted), metadata })).toMatchObject({ event: 'bundle_applied', version: '2' })
    expect(edge.logged('bundle_warnings')).toEqual([])
    expect((await edge.decide()).headers['ratelimit-limit']).toBe('3')
  })

  test('$schema is no unknown field', async () => {
    const edge = await running({ bundle: { $schema: '../schema/bundle.schema.json', ...bundle(1) } })
    expect(edge.log.filter(({ event }) => event === 'bundle_warnings')).toEqual([])
    expect((await edge.get('/readyz')).status).toBe(200)
  })
})

describe('names with quotes and backslashes', () => {
  const id = 'team "a" \\ b'
  const rule = 'per "caller" \\o/'
  const clock = new ManualClock()

  test('are escaped as a structured field in RateLimit', async () => {
    const edge = await running({ bundle: bundle(1, policy(id, { rules: [bucketRule(rule, [], 5)] })), clock })
    expect((await edge.decide()).headers['ratelimit']).toBe('"team \\"a\\" \\\\ b";r=4;t=1')
  })

  test('are escaped as label values in /metrics', async () => {
    const edge = await running({ bundle: bundle(1, policy(id, { mode: 'shadow', rules: [bucketRule(rule, [], 1)] })), clock })
    await edge.decideTimes(2)
    const labels = 'policy="team \\"a\\" \\\\ b",rule="per \\"caller\\" \\\\o/",reason="token_bucket_exceeded"'
    expect(await edge.metric(`edge_would_reject_total{${labels}}`)).toBe(1)
  })

  test('go out as they are in the debug headers', async () => {
    const secret = 'correct horse'
    const edge = await running({
      bundle: bundle(1, policy(id, { rules: [bucketRule(rule, [], 5)] })),
      clock,
      env: { EDGE_DEBUG_SESSION_SECRET: secret },
    })
    const cookie = (await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', secret]])).headers['set-cookie']!.split(';')[0]!
    const { headers } = await edge.decide({ fields: [['Cookie', cookie]] })
    expect(headers).toMatchObject({ 'x-edge-debug-policy': id, 'x-edge-debug-rule': rule })
  })
})
