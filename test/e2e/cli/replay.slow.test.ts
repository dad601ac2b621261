import { describe, expect, test } from 'vitest'
import { LOG_WRITERS, type Logged } from '../../support/replay/log-writers.ts'
import { A, bucket, LOG, policy, REST, requests, START } from '../../support/replay/replayed-logs.ts'
import { replayed, replaying } from '../../support/replay/replaying.ts'

describe('the report as JSON', () => {
  test('the same bundle twice makes no difference', async () => {
    const report = await replayed({ 'a.json': A, 'b.json': A, log: LOG_WRITERS.json(LOG) }, [
      '--bundle',
      'a.json',
      '--bundle',
      'b.json',
      'log',
    ])
    expect(report.difference).toEqual({ newly_rejected: 0, newly_allowed: 0, callers: [] })
  })

  test('a key that the log does not have is counted, and the notes warn of it', async () => {
    const rules = ['header:x-k', 'header:x-tenant'].map((key) => bucket(key, 1, { match: { [key]: '*' } }))
    const files = { 'a.json': [policy('api', [...rules, REST])], log: LOG_WRITERS.json(LOG) }
    const { stdout, stderr } = await replaying(files, ['--bundle', 'a.json', '--json', 'log'])
    expect(JSON.parse(stdout).bundles[0]).toMatchObject({ missing: { 'header:x-tenant': 14 } })
    expect(stderr).toBe(
      'edge replay: warning: header:x-tenant is missing in 14 of 15 requests: so api / by-x-tenant could not be checked for those requests\n',
    )
  })

  test('what a shadow policy would reject is counted apart, with its callers', async () => {
    const report = await replayed(
      { 'a.json': [...A, policy('new', [bucket('header:x-k', 2)], { mode: 'shadow' })], log: LOG_WRITERS.json(LOG) },
      ['--bundle', 'a.json', 'log'],
    )
    expect(report.bundles[0]).toMatchObject({ allowed: 12, rejected: 3, would_reject: 5 })
    expect(report.bundles[0]!.rules).toEqual([
      expect.objectContaining({ policy: 'api', rejected: 3, would_reject: 0 }),
      {
        policy: 'new',
        rule: 'by-x-k',
        rejected: 0,
        would_reject: 5,
        first_at: '2026-01-01T00:00:00.000Z',
        last_at: '2026-01-01T00:00:01.000Z',
        callers: [
          { values: { 'header:x-k': 'a' }, rejected: 0, would_reject: 3 },
          { values: { 'header:x-k': 'b' }, rejected: 0, would_reject: 2 },
        ],
      },
      expect.objectContaining({ rule: 'rest', rejected: 0, would_reject: 0 }),
    ])
  })

  test('a request that cannot be decided is neither allowed nor rejected', async () => {
    const files = {
      'a.json': [policy('api', [bucket('header:x-k', 5)], { selector: { hosts: ['a.example'] } })],
      log: LOG_WRITERS.combined(LOG),
    }
    const { status, stdout, stderr } = await replaying(files, ['--bundle', 'a.json', '--json', 'log'])
    expect(status).toBe(0)
    expect(JSON.parse(stdout).bundles[0]).toMatchObject({ allowed: 0, rejected: 0, refused: { missing_original_host: 15 } })
    expect(stderr).toContain('15 requests could be neither allowed nor rejected (missing_original_host)')
  })

  test('credentials are shown as digests, other ones in each run', async () => {
    const rule = { ...bucket('bearer:', 1), name: 'r', limit_keys: ['bearer', 'cookie:sid', 'header:x-k'] }
    const log = LOG_WRITERS.json(
      Array.from({ length: 3 }, () => ({
        timeMs: START,
        uri: '/api',
        headers: { authorization: 'Bearer s3cret', cookie: 'sid=c00kie', 'x-k': 'a' },
      })),
    )
    const files = { 'a.json': [policy('api', [rule])], 'b.json': [policy('api', [])], log }
    const runs = []
    for (let i = 0; i < 2; i++) {
      const { stdout } = await replaying(files, ['--bundle', 'b.json', '--bundle', 'a.json', '--json', 'log'])
      expect(stdout).not.toMatch(/s3cret|c00kie/)
      const { bundles, difference } = JSON.parse(stdout)
      const { values } = bundles[1].rules[0].callers[0]
      expect(values).toEqual({
        bearer: expect.stringMatching(/^[0-9a-f]{16}$/),
        'cookie:sid': expect.stringMatching(/^[0-9a-f]{16}$/),
        'header:x-k': 'a',
      })
      expect(difference.callers[0].values).toEqual(values)
      runs.push(values)
    }
    expect(runs[0]).not.toEqual(runs[1])
  })
})

describe('logs', () => {
  const byAgent = [policy('api', [bucket('header:user-agent', 5, { match: { 'header:user-agent': '*' } }), REST])]
  const requestsOf = (agent: string, seconds: number, count: number): Logged[] =>
    requests('', seconds, count).map((request) => ({ ...request, client: '203.0.113.7', headers: { 'user-agent': agent } }))
  const log = [...requestsOf('a', 0, 8), ...requestsOf('b', 1, 4), ...requestsOf('a', 21, 3)]

  test('are merged by time, whatever their formats and their order', async () => {
    const parts: Logged[][] = [[], [], []]
    for (const [i, request] of log.entries()) parts[i % 3]!.push(request)
    const files = {
      'a.json': byAgent,
      'one.log': LOG_WRITERS.combined(parts[0]!),
      'two.gz': LOG_WRITERS.gzip(parts[1]!.toReversed()),
      'three.har': LOG_WRITERS.har(parts[2]!),
    }
    const report = await replayed(files, ['--bundle', 'a.json', 'three.har', 'two.gz', 'one.log'])
    expect(report).toMatchObject({ requests: 15, unreadable: 0 })
    expect(report.out_of_order).toBeUndefined()
    expect(report.bundles[0]).toMatchObject({ allowed: 11, rejected: 4 })
  })

  test("the client's address is the last hop behind X-Forwarded-For", async () => {
    const byAddress = [policy('api', [bucket('ip:address', 1)])]
    const from = (client: string, forwarded?: string): Logged => ({
      timeMs: START,
      uri: '/api',
      client,
      ...(forwarded !== undefined && { headers: { 'x-forwarded-for': forwarded } }),
    })
    const given = [from('203.0.113.7'), from('203.0.113.7'), from('10.0.0.1', '203.0.113.7'), from('198.51.100.1', '203.0.113.7')]
    const report = await replayed({ 'a.json': byAddress, log: LOG_WRITERS.json(given) }, ['--bundle', 'a.json', 'log'])
    expect(report.bundles[0]).toMatchObject({ allowed: 2, rejected: 2 })
    expect(report.bundles[0]!.rules[0]!.callers).toEqual([{ values: { 'ip:address': '203.0.113.7' }, rejected: 2 }])
  })

  test('requests that stand too late to be put in order count at the present time, and are counted', async () => {
    const many = Array.from({ length: 12_000 }, (_, i): Logged => ({ timeMs: START + 60_000 + i, uri: '/other' }))
    const report = await replayed({ 'a.json': byAgent, log: LOG_WRITERS.json([...many, ...requestsOf('late', 0, 6)]) }, [
      '--bundle',
      'a.json',
      'log',
    ])
    expect(report).toMatchObject({ requests: 12_006, out_of_order: 6, from: '2026-01-01T00:00:00.000Z' })
    expect(report.bundles[0]).toMatchObject({ rejected: 1 })
    expect(report.bundles[0]!.rules[0]!.first_at! >= '2026-01-01T00:01:00').toBe(true)
  })

  test('lines that cannot be read are counted, and the first ones shown with their places', async () => {
    const text = `nonsense\n${LOG_WRITERS.json(log)}${'{"time":1}\n'.repeat(7)}`
    const { status, stdout, stderr } = await replaying({ 'a.json': byAgent, log: text }, ['--bundle', 'a.json', '--json', 'log'])
    expect([status, JSON.parse(stdout).unreadable]).toEqual([0, 8])
    expect(stderr.split('\n').slice(0, 3)).toEqual([
      'edge replay: log:1: neither the combined format nor JSON',
      'edge replay: log:17: it has no request (method and uri)',
      'edge replay: log:18: it has no request (method and uri)',
    ])
    expect(stderr).toContain('3 more could not be read')
  })
})

test('values that would steer a terminal are shown as what they are', async () => {
  const log = LOG_WRITERS.json(requests('\x1b[2J\u202e<b>', 0, 7))
  const { stdout } = await replaying({ 'a.json': A, log }, ['--bundle', 'a.json', 'log'])
  expect(stdout).toContain('header:x-k=\\u{1b}[2J')
  expect(stdout).not.toContain('\x1b')
  expect(stdout).not.toContain('\u202e')
})
