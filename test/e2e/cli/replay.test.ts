import { describe, expect, test } from 'vitest'
import { LOG_WRITERS, type Logged } from '../../support/replay/log-writers.ts'
import { A, bucket, LOG, policy, REST, requests, START } from '../../support/replay/replayed-logs.ts'
import { replayed, replaying } from '../../support/replay/replaying.ts'

const B = [policy('api', [bucket('header:x-k', 3, { match: { 'header:x-k': '*' } }), REST])]

describe('the report as JSON', () => {
  test('who would be rejected, when and by which rule', async () => {
    expect(await replayed({ 'a.json': A, log: LOG_WRITERS.json(LOG) }, ['--bundle', 'a.json', 'log'])).toEqual({
      requests: 15,
      unreadable: 0,
      from: '2026-01-01T00:00:00.000Z',
      to: '2026-01-01T00:00:30.000Z',
      bundles: [
        {
          file: 'a.json',
          bundle_version: '1',
          allowed: 12,
          rejected: 3,
          would_reject: 0,
          missing: {},
          rules: [
            {
              policy: 'api',
              rule: 'by-x-k',
              rejected: 3,
              would_reject: 0,
              first_at: '2026-01-01T00:00:00.000Z',
              last_at: '2026-01-01T00:00:20.000Z',
              callers: [{ values: { 'header:x-k': 'a' }, rejected: 3 }],
            },
            { policy: 'api', rule: 'rest', rejected: 0, would_reject: 0, first_at: null, last_at: null, callers: [] },
          ],
        },
      ],
    })
  })

  test('how many of the rejected requests would wait in reverse_proxy', async () => {
    const rules = [bucket('header:x-k', 5, { match: { 'header:x-k': '*' }, wait_seconds: 10 }), REST]
    const files = { 'w.json': [policy('api', rules)], log: LOG_WRITERS.json(LOG) }
    const proxied = ['--bundle', 'w.json', '--mode', 'reverse_proxy', 'log']
    expect((await replayed(files, proxied)).bundles[0]).toMatchObject({ rejected: 3, would_wait: 3 })
    expect((await replayed(files, ['--bundle', 'w.json', 'log'])).bundles[0]).not.toHaveProperty('would_wait')
    expect((await replaying(files, proxied)).stdout).toContain(
      '3 rejected requests would wait first (wait_seconds); a replay does not wait, so some may be allowed in fact',
    )
  })

  test('with two bundles, what differs for whom', async () => {
    const report = await replayed({ 'a.json': A, 'b.json': B, log: LOG_WRITERS.json(LOG) }, [
      '--bundle',
      'a.json',
      '--bundle',
      'b.json',
      'log',
    ])
    expect(report.bundles.map(({ file, bundle_version, allowed, rejected }) => [file, bundle_version, allowed, rejected])).toEqual([
      ['a.json', '1', 12, 3],
      ['b.json', '2', 9, 6],
    ])
    expect(report.difference).toEqual({
      newly_rejected: 3,
      newly_allowed: 0,
      callers: [
        { policy: 'api', rule: 'by-x-k', values: { 'header:x-k': 'a' }, newly_rejected: 2, newly_allowed: 0 },
        { policy: 'api', rule: 'by-x-k', values: { 'header:x-k': 'b' }, newly_rejected: 1, newly_allowed: 0 },
      ],
    })
    const back = await replayed({ 'b.json': B, 'a.json': A, log: LOG_WRITERS.json(LOG) }, [
      '--bundle',
      'b.json',
      '--bundle',
      'a.json',
      'log',
    ])
    expect(back.difference).toMatchObject({ newly_rejected: 0, newly_allowed: 3 })
  })
})

describe('logs', () => {
  const byAgent = [policy('api', [bucket('header:user-agent', 5)])]
  const requestsOf = (agent: string, seconds: number, count: number): Logged[] =>
    requests('', seconds, count).map((request) => ({ ...request, client: '203.0.113.7', headers: { 'user-agent': agent } }))
  test('in all formats have the same outcome', async () => {
    const formats = Object.entries(LOG_WRITERS)
    const files = formats.map(([format, write]) => {
      const [a, b] = [`${format} a`, `${format} b`]
      return [format, write([...requestsOf(a, 0, 8), ...requestsOf(b, 1, 4), ...requestsOf(a, 21, 3)])] as const
    })
    const names = formats.map(([format]) => format)
    const report = await replayed({ 'a.json': byAgent, ...Object.fromEntries(files) }, ['--bundle', 'a.json', ...names])
    const count = formats.length
    expect(report).toMatchObject({ unreadable: 0, from: '2026-01-01T00:00:00.000Z', to: '2026-01-01T00:00:21.000Z' })
    expect(report.requests).toBe(15 * count)
    expect(report.bundles[0]).toMatchObject({ allowed: 11 * count, rejected: 4 * count, missing: {} })
    const rejected = report.bundles[0]!.rules[0]!.callers.map(({ values, rejected }) => [values['header:user-agent'], rejected])
    expect(Object.fromEntries(rejected)).toEqual(Object.fromEntries(names.map((format) => [`${format} a`, 4])))
  })

  test('with --mode reverse_proxy, bodies count where a log has them', async () => {
    const rule = {
      name: 'tokens',
      limit_keys: ['llm:model'],
      algorithm: 'token_bucket_llm',
      algorithm_config: { tokens_per_minute: 1000, max_completion_tokens: 400 },
    }
    const line = {
      time: new Date(START).toISOString(),
      method: 'POST',
      uri: '/api',
      host: 'a.example',
      headers: { 'content-type': 'application/json' },
    }
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }], max_tokens: 400 })
    const files = { 'a.json': [policy('api', [rule])], log: `${JSON.stringify({ ...line, body })}\n`.repeat(4) }
    const proxied = await replayed(files, ['--bundle', 'a.json', '--mode', 'reverse_proxy', 'log'])
    expect(proxied.bundles[0]).toMatchObject({ allowed: 2, rejected: 2, missing: {} })
    expect(proxied.bundles[0]!.rules[0]!.callers).toEqual([{ values: { 'llm:model': 'm' }, rejected: 2 }])
    const asked = await replayed(files, ['--bundle', 'a.json', 'log'])
    expect(asked.bundles[0]).toMatchObject({ allowed: 4, missing: { 'llm:model': 4 } })
  })
})

test('the summary has the same numbers, for people', async () => {
  const files = { 'a.json': A, 'b.json': B, log: LOG_WRITERS.json(LOG) }
  const { status, stdout, stderr } = await replaying(files, ['--bundle', 'a.json', '--bundle', 'b.json', 'log'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toBe(`15 requests from 2026-01-01T00:00:00.000Z to 2026-01-01T00:00:30.000Z (30 s)

  ALLOWED      %  REJECTED      %  WOULD REJECT     %  VERSION  BUNDLE
       12  80.00         3  20.00             0  0.00        1  a.json
        9  60.00         6  40.00             0  0.00        2  b.json

With b.json instead: 3 requests newly rejected, 0 newly allowed
  NEWLY REJECTED  NEWLY ALLOWED  POLICY  RULE    CALLER
               2              0  api     by-x-k  header:x-k=a
               1              0  api     by-x-k  header:x-k=b

a.json: rules
  REJECTED  WOULD REJECT  FIRST                     LAST                      POLICY  RULE
         3             0  2026-01-01T00:00:00.000Z  2026-01-01T00:00:20.000Z  api     by-x-k

a.json: callers
  REJECTED  WOULD REJECT  POLICY  RULE    CALLER
         3             0  api     by-x-k  header:x-k=a

b.json: rules
  REJECTED  WOULD REJECT  FIRST                     LAST                      POLICY  RULE
         6             0  2026-01-01T00:00:00.000Z  2026-01-01T00:00:20.000Z  api     by-x-k

b.json: callers
  REJECTED  WOULD REJECT  POLICY  RULE    CALLER
         5             0  api     by-x-k  header:x-k=a
         1             0  api     by-x-k  header:x-k=b
`)
})
