import { describe, expect, test } from 'vitest'
import { useStubApi } from '../../support/admin/stub-api.ts'
import { topResponse } from '../../support/admin/top.ts'
import { command } from '../../support/service/command.ts'

const { api } = useStubApi()

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u202e]/

const COUNTERS = {
  policy: 'api',
  rule: 'per-key',
  mode: 'enforce',
  values: { 'header:x-k': 'alice' },
  counters: [{ kind: 'bucket', level: 2.5, limit: 5, remaining: 2, reset_s: 2.5 }],
}

const OVERRIDE = {
  id: '0123456789ab',
  policy: 'api',
  rule: 'per-key',
  values: { 'header:x-k': 'alice' },
  multiply: 3,
  until: '2026-11-16T12:00:00Z',
  reason: 'ticket 4711',
  actor: 'ada',
  created_at: '2026-11-16T10:00:00Z',
  edited: null,
  durable: true,
  in_force: true,
}

const NOBODY = {
  bundle_version: '1',
  counters_known: true,
  rules_tried: 0,
  rules: [],
  incomplete_rules: [],
  rules_left_out: 0,
  unused_keys: [],
  overrides: [],
  top: null,
}

describe('what a command prints', () => {
  test('--json: the response as it is', async () => {
    api().respond = (res) => res.end('{"a": [1, "\u009b\\u001b"]}')
    expect(await command('status', '--json')).toEqual({ status: 0, stdout: '{"a": [1, "\\u009b\\u001b"]}\n', stderr: '' })
  })

  test('counters', async () => {
    api().says({ ...COUNTERS, holds: 2, override: 'abc' })
    expect((await command('counters', 'api', 'per-key', 'header:x-k=alice')).stdout).toBe(`policy    api (enforce)
rule      per-key
caller    header:x-k=alice
bucket    2 of 5 left, full again in 3 s
holds     2 requests
override  abc, see edge override --list
`)
  })

  test('reset', async () => {
    api().says({ ...COUNTERS, counters: [{ kind: 'bucket', level: 5, limit: 5, remaining: 5, reset_s: 0 }] })
    const { stdout } = await command('reset', 'api', 'per-key', 'header:x-k=alice', '--reason', 'x')
    expect(stdout).toMatch(/^Reset\.\n\npolicy {2}api/)
    expect(stdout).toContain('bucket  5 of 5 left, full\n')
    expect(api().requests.map(({ url }) => url)).toEqual(['/admin/v1/status', '/admin/v1/counters/reset'])
  })

  test('reset speaks of other instances where there are some', async () => {
    api().says({ ...COUNTERS, redis: { mode: 'exact', address: 'redis:6379', connected: true } })
    const { stdout } = await command('reset', 'api', 'per-key', 'header:x-k=alice', '--reason', 'x')
    expect(stdout).toMatch(/^Reset\. Other instances of the fleet follow within 2 s\.\n\npolicy {2}api/)
  })

  test.each([
    ['bearer', { bearer: 'fedcba9876543210' }, true],
    ['header:Authorization', { 'header:authorization': 'fedcba9876543210' }, true],
    ['header:x-k', { 'header:x-k': '0123456789abcdef' }, false],
  ])('reset: whether a digest was given for %s', async (key, values, isNoted) => {
    api().says({ ...COUNTERS, values })
    const note = `note    ${key}: this looks like a digest; expected the credential itself\n`
    const caller = ['api', 'per-key', `${key}=0123456789abcdef`]
    expect((await command('reset', ...caller, '--reason', 'x')).stdout.includes(note)).toBe(isNoted)
  })

  test('override, and what an operator must know about it', async () => {
    api().says({ ...OVERRIDE, durable: false, in_force: false }, 201)
    const args = ['override', 'api', 'per-key', 'header:x-k=alice', '--multiply', '3', '--until', '2h', '--reason', 'ticket 4711']
    expect((await command(...args)).stdout).toBe(`0123456789ab
  change  3 times the limit
  where   policy api, rule per-key, header:x-k=alice
  until   2026-11-16T12:00:00Z
  by      ada, 2026-11-16T10:00:00Z
  reason  ticket 4711
  note    not in force: its rule is not in the active bundle, or cannot be changed this way
  note    will not survive a restart: it is not saved in a state file or in Redis
`)
  })

  test('times without fractions of a second, and values of callers as they are', async () => {
    const values = { 'header:x-at': '2026-11-16T12:00:00.000Z' }
    const at = '2026-11-16T10:00:00.123Z'
    const edited = { actor: 'max', reason: 'until 2026-11-16T12:00:00.000Z', at }
    api().says({ overrides: [{ ...OVERRIDE, values, until: '2026-11-16T12:00:00.000Z', created_at: at, edited }] })
    const { stdout } = await command('override', '--list')
    expect(stdout).toContain('  until   2026-11-16T12:00:00Z\n  by      ada, 2026-11-16T10:00:00Z\n')
    expect(stdout).toContain('  edited  max, 2026-11-16T10:00:00Z: until 2026-11-16T12:00:00.000Z\n')
    expect(stdout).toContain('header:x-at=2026-11-16T12:00:00.000Z\n')
    expect(JSON.parse((await command('override', '--list', '--json')).stdout).overrides[0].created_at).toBe(at)
  })

  test.each([
    [{ set: { burst: 9, rate: '5/minute' } }, 'burst=9 rate=5/minute'],
    [{ unlimited: true }, 'no limit'],
    [{ block: true, cut_streams: false }, 'blocked'],
    [{ block: true, cut_streams: true }, 'blocked, and open streams are cut'],
  ])('an override %j is listed', async (change, text) => {
    const { multiply: _, values: _values, ...rest } = OVERRIDE
    api().says({ overrides: [{ ...rest, ...change }] })
    const { stdout } = await command('override', '--list')
    expect(stdout).toContain(`  change  ${text}\n`)
    expect(stdout).toContain('  where   policy api, rule per-key, all callers\n')
  })

  test('a block, and what becomes of open streams', async () => {
    const args = ['override', 'api', 'per-key', 'header:x-k=alice', '--block', '--until', '2h', '--reason', 'x']
    const { multiply: _, ...rest } = OVERRIDE
    api().says({ ...rest, block: true, cut_streams: false, streams: { open: 3, cut: false } }, 201)
    expect(
      (await command(...args)).stdout,
    ).toContain(`  note    open streams go on until they end; 3 streams of all callers were open at this instance
  note    to end those of the blocked callers: edge override --edit 0123456789ab --cut-streams --reason TEXT
`)
    api().says({ ...rest, block: true, cut_streams: true, streams: { open: 1, cut: true } }, 201)
    expect((await command(...args, '--cut-streams')).stdout).toContain(`  change  blocked, and open streams are cut
`)
    expect((await command(...args, '--cut-streams')).stdout).toContain(
      '  note    open streams of the blocked callers are cut; 1 stream of all callers was open at this instance\n',
    )
    for (const [open, ended, sentence] of [
      [3, 2, '2 streams of the blocked callers were cut; before, 3 streams of all callers were open at this instance'],
      [1, 1, '1 stream of the blocked callers was cut; before, 1 stream of all callers was open at this instance'],
      [1, 0, '0 streams of the blocked callers were cut; before, 1 stream of all callers was open at this instance'],
    ] as const) {
      api().says({ ...rest, block: true, cut_streams: true, streams: { open, cut: true, ended } }, 201)
      expect((await command(...args, '--cut-streams')).stdout).toContain(`  note    ${sentence}\n`)
    }
  })

  test('an edited override, and those that are over', async () => {
    const edited = { actor: 'max', reason: 'longer', at: '2026-11-16T11:00:00Z' }
    api().says({ overrides: [{ ...OVERRIDE, edited }] })
    expect((await command('override', '--list')).stdout).toContain('  edited  max, 2026-11-16T11:00:00Z: longer\n')
    const at = '2026-11-16T11:30:00Z'
    api().says({
      overrides: [
        { ...OVERRIDE, edited, ended: { at, why: 'ended', actor: 'ann', reason: 'enough' } },
        { ...OVERRIDE, id: 'abc', ended: { at, why: 'over', actor: null, reason: null } },
      ],
    })
    const { stdout } = await command('override', '--history')
    expect(stdout).toContain('  edited  max, 2026-11-16T11:00:00Z: longer\n  ended   2026-11-16T11:30:00Z, ended by ann: enough\n\nabc\n')
    expect(stdout).toContain('  ended   2026-11-16T11:30:00Z, expired\n')
    api().says({ overrides: [] })
    expect((await command('override', '--history')).stdout).toBe('No override has ended since the instance started.\n')
  })

  test('--dry-run: the limits before and after, and whom they are for', async () => {
    const minute = (limit: number) => ({ kind: 'bucket', limit, text: `${limit} requests per minute` })
    const preview = {
      policy: 'api',
      rule: 'per-key',
      values: null,
      multiply: 2,
      until: '2026-11-16T12:00:00Z',
      replaces: 'abc',
      covers: { callers: 'all', policies: 1, decided_last_minute: 1234 },
      before: { effect: 'limits', limits: [minute(60)] },
      after: { effect: 'limits', limits: [minute(120)] },
    }
    const args = ['override', 'api', 'per-key', '--all', '--multiply', '2', '--until', '2h', '--reason', 'x', '--dry-run']
    api().says(preview)
    expect((await command(...args)).stdout).toBe(`Nothing was changed.
  covers    policy api, rule per-key, all callers; this instance decided 1,234 requests by the policy in the last minute
  bucket    60 requests per minute → 120 requests per minute
  until     2026-11-16T12:00:00Z
  replaces  abc
`)
    const blocks = { effect: 'blocks', limits: [] }
    api().says({ ...preview, replaces: null, after: blocks, streams: { open: 2, cut: false } })
    expect((await command(...args)).stdout).toContain(`  bucket   60 requests per minute → blocked
  until    2026-11-16T12:00:00Z
  streams  open streams go on until they end; 2 streams of all callers were open at this instance
`)
    api().says({ ...preview, before: blocks, after: { effect: 'no_limit', limits: [] } })
    expect((await command(...args)).stdout).toContain('  limit     blocked → no limit\n')
    const all = { callers: 'all', policies: 3, decided_last_minute: null }
    api().says({ shadow_all: true, until: preview.until, replaces: null, covers: all, before: null, after: null })
    expect((await command(...args)).stdout).toContain('  covers  all policies (3 in the bundle): nothing is enforced\n')
  })

  test('no overrides, and the end of one', async () => {
    api().says({ overrides: [] })
    expect((await command('override', '--list')).stdout).toBe('No overrides.\n')
    api().respond = (res) => res.writeHead(204).end()
    expect(await command('override', '--end', 'abc', '--reason', 'x')).toEqual({ status: 0, stdout: 'Ended.\n', stderr: '' })
    expect(await command('override', '--end', 'abc', '--reason', 'x', '--json')).toEqual({ status: 0, stdout: '', stderr: '' })
  })

  test('counters of a caller that nothing is counted for', async () => {
    const full = { kind: 'bucket', level: 60, limit: 60, remaining: 60, reset_s: 0 }
    api().says({ ...COUNTERS, unit: 'requests', counters: [full] })
    const note =
      'Nothing is counted for this caller now: it has not come lately, or its name is misspelled. edge caller shows what is known of it.\n'
    const { stdout } = await command('counters', 'api', 'per-key', 'header:x-k=alcie')
    expect(stdout).toContain(`bucket  60 of 60 requests left, full\n${note}`)
    api().says({ ...COUNTERS, counters: [full, { ...full, level: 59.5, remaining: 59 }] })
    expect((await command('counters', 'api', 'per-key', 'header:x-k=alice')).stdout).not.toContain('Nothing is counted')
  })

  test('top: once where the output is not a terminal', async () => {
    const caller = { policy: 'api', rule: 'per-key', mode: 'enforce', values: { 'header:x-k': 'alice' } }
    const times = { first_at: '2026-11-16T09:12:01Z', last_at: '2026-11-16T10:03:59Z' }
    const near = { ...caller, kind: 'bucket', period: null, unit: 'requests', level: 1.5, remaining: 1, limit: 5, left_percent: 20 }
    const tokens = { ...near, rule: 'tokens', unit: 'tokens' }
    const since = '2026-11-16T10:00:00Z'
    const hour = { since: '2026-11-16T09:05:00Z', max_error: 0, complete: true }
    const answer = {
      since,
      max_error: 0,
      complete: true,
      hour,
      rejected: [
        { ...caller, ...times, count: 1200, hour_count: 4321 },
        { ...caller, ...times, values: {}, count: 0, hour_count: 7 },
      ],
      nearest: [
        near,
        { ...tokens, kind: 'minute', remaining: 57_195, limit: 60_000, left_percent: 95 },
        { ...tokens, kind: 'day', period: '1d', remaining: 4_925_600, limit: 5_000_000, left_percent: 98 },
        { ...near, rule: 'money', unit: 'money', kind: 'budget', period: '1mo', remaining: 1234, limit: 5000, left_percent: 24 },
        { ...near, rule: 'flight', kind: 'in_flight' },
        { ...near, policy: 'trial', mode: 'shadow' },
      ],
    }
    api().says(answer)
    expect(
      (await command('top')).stdout,
    ).toBe(`Rejected most: REJECTS counts since ${since.slice(11, 16)}, HOUR since ${hour.since.slice(11, 16)}, all times are UTC
  REJECTS   HOUR  FIRST  LAST   POLICY  RULE     CALLER
    1,200  4,321  09:12  10:03  api     per-key  header:x-k=alice
        0      7  09:12  10:03  api     per-key  everybody

Nearest to their limit now: LEFT is what remains of LIMIT
       LEFT      LIMIT    %  COUNTS              POLICY          RULE     CALLER
          1          5  20%  requests            api             per-key  header:x-k=alice
     57,195     60,000  95%  tokens a minute     api             tokens   header:x-k=alice
  4,925,600  5,000,000  98%  tokens in 1d        api             tokens   header:x-k=alice
      12.34      50.00  24%  money in 1mo        api             money    header:x-k=alice
          1          5  20%  requests in flight  api             flight   header:x-k=alice
          1          5  20%  requests            trial (shadow)  per-key  header:x-k=alice
`)
    expect(api().requests).toHaveLength(1)
    api().says({ ...answer, max_error: 3, hour: { ...hour, max_error: 20, complete: false } })
    expect((await command('top')).stdout).toContain(
      ', all times are UTC; counts may be up to 3 too high; those of the hour may be wrong by up to 20; a worker died or did not answer, so counts may be too low\n',
    )
  })

  test('status, in good times and in bad ones', async () => {
    const TIME = '2026-11-16T10:00:00Z'
    const good = {
      version: '1.0.0',
      uptime_s: 7500,
      memory_bytes: 85.4 * 1024 * 1024,
      mode: 'decision_service',
      workers: { configured: 2, alive: 2 },
      bundle: { version: '7', hash: '0123456789abcdef', applied_at: '2026-11-16T10:00:00Z', policies: 1 },
      store: { kind: 'embedded', slots: 1_048_576, occupied: 312 },
      redis: null,
      state_file: null,
      shadow_all: null,
      problems: [],
    }
    api().says(good)
    expect((await command('status')).stdout).toBe(`edge 1.0.0, decision_service, up 2 h 5 min
  workers   2 of 2 alive
  memory    85 MiB
  bundle    version 7, 1 policy, since 2026-11-16T10:00:00Z, sha256 0123456789ab
  counters  312 of 1,048,576 slots in use

No problems.
`)
    api().says({
      ...good,
      bundle: null,
      redis: { mode: 'exact', address: '10.0.0.5:6379', connected: false },
      state_file: { path: '/s', saved_at: null },
      key_sets: [
        { issuer: 'a', url: 'https://a.test/k', path: null, keys: 1, read_at: TIME, problem: null, failing_since: null },
        { issuer: 'bc', url: null, path: '/k', keys: 2, read_at: TIME, problem: 'it is gone', failing_since: TIME },
        { issuer: 'd', url: 'https://d.test/', path: null, keys: 0, read_at: null, problem: 'it returned 500', failing_since: TIME },
      ],
      shadow_all: { ...OVERRIDE, shadow_all: true },
      problems: [{ code: 'redis_unavailable', message: 'Redis is away', since: '2026-11-16T10:00:00Z' }],
    })
    const { stdout } = await command('status')
    expect(stdout).toContain('  bundle      none: every request gets 503\n')
    expect(stdout).toContain('  redis       exact, 10.0.0.5:6379, unreachable\n')
    expect(stdout).toContain('  state file  /s, not saved yet\n')
    expect(stdout).toContain(`  keys of a   1 key, read ${TIME}, https://a.test/k\n`)
    expect(stdout).toContain(`  keys of bc  2 keys, read ${TIME}, /k, failing since ${TIME}: it is gone\n`)
    expect(stdout).toContain(`  keys of d   never read, https://d.test/, failing since ${TIME}: it returned 500\n`)
    expect(stdout).toContain('  SHADOW      nothing is enforced until 2026-11-16T12:00:00Z: ticket 4711 (ada)\n')
    expect(stdout).toContain('1 problem:\n  redis_unavailable since 2026-11-16T10:00:00Z\n    Redis is away\n')
  })

  test('nothing that a terminal obeys, whoever chose it', async () => {
    const evil = '\x1b]0;owned\x07\u009b2J\r\u202e'
    const where = { policy: evil, rule: evil, values: { [evil]: evil } }
    const explained = { action: 'allow', status: 200, reason: evil, headers: { [evil]: evil }, policies: [] }
    const replies: [string[], unknown][] = [
      [['counters', 'a', 'b'], { ...COUNTERS, ...where }],
      [['override', '--list'], { overrides: [{ ...OVERRIDE, ...where, reason: evil, actor: evil, id: evil }] }],
      [
        ['override', '--history'],
        {
          overrides: [
            {
              ...OVERRIDE,
              ...where,
              edited: { actor: evil, reason: evil, at: evil },
              ended: { at: evil, why: evil, actor: evil, reason: evil },
            },
          ],
        },
      ],
      [['top'], topResponse([where], evil)],
      [
        ['caller', 'x'],
        { ...NOBODY, top: topResponse([where], evil), overrides: [{ ...OVERRIDE, ...where, reason: evil, actor: evil, id: evil }] },
      ],
      [['explain', '/'], { ...explained, caller: { id: evil, labels: { [evil]: evil }, problem: null } }],
      [['explain', '/'], { ...explained, caller: { id: null, labels: {}, problem: evil } }],
    ]
    for (const [args, reply] of replies) {
      api().says(reply)
      const { status, stdout } = await command(...args)
      expect(status).toBe(0)
      expect(stdout.replaceAll('\n', '')).not.toMatch(UNPRINTABLE)
    }
    api().says({ error: { message: evil, code: evil } }, 400)
    const { stderr } = await command('status')
    expect(stderr.trimEnd()).not.toMatch(UNPRINTABLE)
    expect((await command('explain', `/${evil}`, evil)).stderr.trimEnd()).not.toMatch(UNPRINTABLE)
  })
})
