import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { useStubApi } from '../../support/admin/stub-api.ts'
import { command } from '../../support/service/command.ts'
import { scratchDirectory } from '../../support/service/running.ts'

const { api, environment } = useStubApi()

describe('what a command asks', () => {
  test.each([
    ['status', 'GET', '/admin/v1/status', undefined],
    ['top', 'GET', '/admin/v1/top', undefined],
    ['top --since 30m api per-key', 'GET', '/admin/v1/top?policy=api&rule=per-key&since=30m', undefined],
    ['top a/b&c', 'GET', '/admin/v1/top?policy=a%2Fb%26c', undefined],
    ['top api per-key', 'GET', '/admin/v1/top?policy=api&rule=per-key', undefined],
    ['counters api all', 'POST', '/admin/v1/counters', { policy: 'api', rule: 'all', values: {} }],
    [
      'counters api r bearer=a=b== header:x-k=',
      'POST',
      '/admin/v1/counters',
      { policy: 'api', rule: 'r', values: { bearer: 'a=b==', 'header:x-k': '' } },
    ],
    [
      'reset api r header:x-k=a --reason why',
      'POST',
      '/admin/v1/counters/reset',
      { policy: 'api', rule: 'r', values: { 'header:x-k': 'a' }, reason: 'why' },
    ],
    [
      'counters api r header:x-k=Zoë jwt:sub=Zoë',
      'POST',
      '/admin/v1/counters',
      { policy: 'api', rule: 'r', values: { 'header:x-k': 'ZoÃ«', 'jwt:sub': 'Zoë' } },
    ],
    ['counters api r cookie:sid=Zoë', 'POST', '/admin/v1/counters', { policy: 'api', rule: 'r', values: { 'cookie:sid': 'Zoë' } }],
    ['caller acme', 'POST', '/admin/v1/callers', { value: 'acme' }],
    ['caller c2VjcmV0Cg==', 'POST', '/admin/v1/callers', { value: 'c2VjcmV0Cg==' }],
    ['caller x-k=acme', 'POST', '/admin/v1/callers', { value: 'x-k=acme' }],
    ['caller Zoë --policy api', 'POST', '/admin/v1/callers', { value: 'Zoë', policy: 'api' }],
    ['caller header:x-k=Zoë= jwt:sub=Zoë', 'POST', '/admin/v1/callers', { values: { 'header:x-k': 'ZoÃ«=', 'jwt:sub': 'Zoë' } }],
    ['explain -H x-k:Zoë /x', 'POST', '/admin/v1/explain', { method: 'GET', uri: '/x', headers: { 'x-k': 'ZoÃ«' } }],
    ['explain /x', 'POST', '/admin/v1/explain', { method: 'GET', uri: '/x', headers: {} }],
    ['explain -d {} /x', 'POST', '/admin/v1/explain', { method: 'POST', uri: '/x', headers: {}, body: '{}' }],
    [
      'explain -X PUT --host h -H X-A:1 -H x-b:2 -H x-a:3 /x?y=1',
      'POST',
      '/admin/v1/explain',
      { method: 'PUT', uri: '/x?y=1', host: 'h', headers: { 'x-a': ['1', '3'], 'x-b': '2' } },
    ],
    ['explain https://u@a.example:8/x?y', 'POST', '/admin/v1/explain', { method: 'GET', uri: '/x?y', host: 'a.example:8', headers: {} }],
    ['explain http://a.example --host b', 'POST', '/admin/v1/explain', { method: 'GET', uri: '/', host: 'b', headers: {} }],
    ['override --list', 'GET', '/admin/v1/overrides', undefined],
    ['override --history', 'GET', '/admin/v1/overrides/history', undefined],
    ['override --end a/b --reason over', 'DELETE', '/admin/v1/overrides/a%2Fb?reason=over', undefined],
    [
      'override api r header:x-k=a --set burst=9 --set rate=5/minute --until 2h --reason x --replace abc',
      'POST',
      '/admin/v1/overrides',
      {
        policy: 'api',
        rule: 'r',
        values: { 'header:x-k': 'a' },
        set: { burst: 9, rate: '5/minute' },
        until: '2h',
        reason: 'x',
        replace: 'abc',
      },
    ],
    [
      'override api r k=v --unlimited --until 2h --reason x',
      'POST',
      '/admin/v1/overrides',
      { policy: 'api', rule: 'r', values: { k: 'v' }, unlimited: true, until: '2h', reason: 'x' },
    ],
    [
      'override api r k=v --block --until 2h --reason x',
      'POST',
      '/admin/v1/overrides',
      { policy: 'api', rule: 'r', values: { k: 'v' }, block: true, until: '2h', reason: 'x' },
    ],
    [
      'override api r k=v --block --cut-streams --until 2h --reason x',
      'POST',
      '/admin/v1/overrides',
      { policy: 'api', rule: 'r', values: { k: 'v' }, block: true, cut_streams: true, until: '2h', reason: 'x' },
    ],
  ])('edge %s', async (line, method, url, body) => {
    const { status } = await command(...line.split(' '), '--json')
    expect(status).toBe(0)
    expect(api().requests).toHaveLength(1)
    expect(api().requests[0]).toMatchObject({ method, url, headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'x-edge-actor': 'ada' } })
    expect(api().requests[0]!.body).toEqual(body)
  })

  const PREVIEW = { until: '2026-11-16T12:00:00Z', replaces: null, before: null, after: null }
  const ALL = { callers: 'all', policies: 1, decided_last_minute: 7 }

  test.each([
    ['--shadow-all --until 1h --reason fire', 'POST', '', { shadow_all: true, until: '1h', reason: 'fire' }],
    [
      'api r --all --multiply 1.5 --until 2h --reason x',
      'POST',
      '',
      { policy: 'api', rule: 'r', all: true, multiply: 1.5, until: '2h', reason: 'x' },
    ],
    ['--edit a/b --until 5h --reason x', 'PATCH', '/a%2Fb', { until: '5h', reason: 'x' }],
    ['--edit abc --block --reason x', 'PATCH', '/abc', { block: true, reason: 'x' }],
    ['--edit abc --cut-streams --reason x', 'PATCH', '/abc', { cut_streams: true, reason: 'x' }],
    ['--edit abc --set burst=9 --until 1d --reason x', 'PATCH', '/abc', { set: { burst: 9 }, until: '1d', reason: 'x' }],
  ])('edge override %s, after a look at what it covers', async (line, method, id, body) => {
    api().says({ ...PREVIEW, covers: ALL })
    const { status, stderr } = await command('override', ...line.split(' '), '--yes', '--json')
    expect(status).toBe(0)
    expect(stderr).toContain('This is for all callers:\n  covers  ')
    expect(api().requests.map((request) => [request.method, request.url, request.body])).toEqual([
      ['POST', `/admin/v1/overrides/preview${id}`, body],
      [method, `/admin/v1/overrides${id}`, body],
    ])
    const dry = await command('override', ...line.split(' '), '--dry-run', '--json')
    expect([dry.status, JSON.parse(dry.stdout)]).toEqual([0, { ...PREVIEW, covers: ALL }])
    expect(
      api()
        .requests.slice(2)
        .map((request) => [request.method, request.url, request.body]),
    ).toEqual([['POST', `/admin/v1/overrides/preview${id}`, body]])
  })

  test('an edit that is for one caller says no more', async () => {
    api().says({ ...PREVIEW, covers: { ...ALL, callers: 'one' } })
    expect((await command('override', '--edit', 'abc', '--until', '5h', '--reason', 'x', '--json')).stderr).toBe('')
  })

  test('the actor is --actor, else EDGE_ACTOR, else $USER', async () => {
    const actors = async (...more: string[]) => {
      for (const line of [
        'override api r k=v --block --until 2h --reason x',
        'override --end abc --reason x',
        'reset api r k=v --reason x',
      ])
        await command(...line.split(' '), '--json', ...more)
      return api()
        .requests.splice(0)
        .map(({ headers }) => headers['x-edge-actor'])
    }
    expect(await actors()).toEqual(['ada', 'ada', 'ada'])
    vi.stubEnv('EDGE_ACTOR', 'cron')
    expect(await actors()).toEqual(['cron', 'cron', 'cron'])
    expect(await actors('--actor', 'Zoë')).toEqual(['ZoÃ«', 'ZoÃ«', 'ZoÃ«'])
    vi.stubEnv('EDGE_ACTOR', '')
    vi.stubEnv('USER', undefined)
    expect(await actors()).toEqual([undefined, undefined, undefined])
  })

  test('who is not known is told how to name oneself, after the change', async () => {
    vi.stubEnv('USER', undefined)
    const note = 'note: this is logged as a change by "unknown"; name yourself with --actor NAME, or set EDGE_ACTOR'
    const lines = ['override api r k=v --block --until 2h --reason x', 'override --end abc --reason x', 'reset api r k=v --reason x']
    for (const line of lines) {
      const [name, ...args] = line.split(' ')
      expect(await command(name!, ...args, '--json')).toMatchObject({ status: 0, stderr: `edge ${name}: ${note}\n` })
      expect(await command(name!, ...args, '--json', '--actor', 'ada')).toMatchObject({ status: 0, stderr: '' })
    }
    for (const line of ['status', 'override --list', 'counters api r k=v', `${lines[0]} --dry-run`])
      expect(await command(...line.split(' '), '--json')).toMatchObject({ status: 0, stderr: '' })
  })

  test('a path in front of the API, and the admin port of this machine', async () => {
    environment({ EDGE_ADMIN_URL: `${api().url}/ops`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN })
    await command('status', '--json')
    environment({ EDGE_ADMIN_URL: `${api().url}/ops/admin/v1`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN })
    await command('status', '--json')
    environment({ EDGE_ADMIN_PORT: String(api().port), EDGE_ADMIN_TOKEN: ADMIN_TOKEN, USER: 'Zoë\n' })
    await command('status', '--json')
    expect(api().requests.map(({ url, headers }) => [url, headers['x-edge-actor']])).toEqual([
      ['/ops/admin/v1/status', undefined],
      ['/ops/admin/v1/status', undefined],
      ['/admin/v1/status', 'ZoÃ«?'],
    ])
  })
})

test('edge explain reads header fields from a file, so that a token is not on the command line', async () => {
  const file = join(await scratchDirectory(), 'fields')
  await writeFile(file, 'Authorization: Bearer a.b.c\r\n\nX-K: 1\n')
  expect((await command('explain', '--json', '-H', `@${file}`, '-H', 'x-k: 2', '/x')).status).toBe(0)
  expect(api().requests.at(-1)!.body).toMatchObject({ headers: { authorization: 'Bearer a.b.c', 'x-k': ['1', '2'] } })
  await writeFile(file, 'a.secret.token\n')
  for (const field of [`@${file}`, 'a.secret.token']) {
    const { status, stdout, stderr } = await command('explain', '-H', field, '/x')
    expect([status, stderr]).toEqual([1, expect.stringContaining("-H: expected 'Name: value', or @FILE with such lines")])
    expect(stdout + stderr).not.toContain('secret')
  }
  expect((await command('explain', '-H', '@/nowhere/at-all', '/x')).stderr).toContain('-H: cannot read "/nowhere/at-all": ENOENT')
})

test.each<[string, Readonly<Record<string, string>>, boolean]>([
  ['EDGE_ADMIN_HOST', { EDGE_ADMIN_HOST: '127.0.0.1', EDGE_HOST: '192.0.2.1' }, true],
  ['EDGE_HOST', { EDGE_HOST: '127.0.0.1' }, true],
  ['all interfaces', { EDGE_HOST: '0.0.0.0' }, true],
  ['all interfaces of IPv6', { EDGE_HOST: '192.0.2.1', EDGE_ADMIN_HOST: '::' }, true],
  ['an address where it does not listen', { EDGE_ADMIN_HOST: '127.0.0.2' }, false],
])('a port of this machine is asked where the service has it: %s', async (_, hosts, isAsked) => {
  environment({ ...hosts, EDGE_ADMIN_PORT: String(api().port), EDGE_ADMIN_TOKEN: ADMIN_TOKEN })
  const { status, stderr } = await command('status', '--json')
  expect({ status, requests: api().requests.length }).toEqual({ status: isAsked ? 0 : 1, requests: isAsked ? 1 : 0 })
  if (!isAsked) expect(stderr).toContain(`http://127.0.0.2:${api().port}/ is unreachable`)
})

test('an address of IPv6 is asked as such, and one that is none is named', async () => {
  environment({ EDGE_ADMIN_HOST: '::1', EDGE_ADMIN_PORT: '1', EDGE_ADMIN_TOKEN: ADMIN_TOKEN })
  expect((await command('status')).stderr).toContain('http://[::1]:1/ is unreachable')
  environment({ EDGE_ADMIN_HOST: 'a b', EDGE_ADMIN_PORT: '1', EDGE_ADMIN_TOKEN: ADMIN_TOKEN })
  expect((await command('status')).stderr).toContain('EDGE_ADMIN_HOST is not a host')
})

test.each(['status', 'top', 'caller', 'explain', 'counters', 'reset', 'override'])('edge %s --help asks nobody', async (name) => {
  environment({})
  const { status, stdout, stderr } = await command(name, '--help')
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toContain(`Usage: edge ${name} `)
})
