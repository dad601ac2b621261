import { afterEach, describe, expect, test, vi } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN } from '../../support/admin/admin-client.ts'
import { useStubApi } from '../../support/admin/stub-api.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { command } from '../../support/service/command.ts'
import { running } from '../../support/service/running.ts'

const { api } = useStubApi()

const TIME = '2026-11-16T11:35:00Z'
const REJECT = {
  level: 'info',
  time: TIME.replace('Z', '.123Z'),
  event: 'reject',
  policy: 'api',
  rule: 'per-key',
  limit_keys: ['header:x-k'],
  msg: 'request rejected',
}
// Fractions of a second are not printed.
const REJECT_LINE = `${TIME}  reject              request rejected: policy=api rule=per-key limit_keys=["header:x-k"]\n`
const NOTHING = { actor: null, reason: null, policy: null, rule: null, values: null, before: null, after: null, until: null, id: null }
const CHANGE = { ...NOTHING, time: TIME, source: null, detail: null }
const ALICE = { policy: 'api', rule: 'per-key', values: { 'header:x-k': 'alice' } }
const EVIL = '\x1b]0;owned\x07\u009b2J\r\u202e'
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNPRINTABLE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/

afterEach(() => {
  vi.unstubAllEnvs()
})

describe('what edge events and edge changes ask', () => {
  test.each([
    ['events', '/admin/v1/events/recent?since=1h&limit=2000'],
    ['events --limit 7', '/admin/v1/events/recent?since=1h&limit=7'],
    ['events --json', '/admin/v1/events/recent?since=1h'],
    [
      'events --since 5m --type reject --type bundle,override --limit 9',
      '/admin/v1/events/recent?since=5m&event=reject%2Cbundle%2Coverride&limit=9',
    ],
    ['events --follow', '/admin/v1/events?since=1h'],
    ['events -f --since 1s --type x', '/admin/v1/events?since=1s&event=x'],
    ['changes', '/admin/v1/changes'],
    ['changes --since 7d --limit 3', '/admin/v1/changes?since=7d&limit=3'],
  ])('edge %s', async (line, url) => {
    api().says({ error: { message: 'enough', code: 'bad_request' } }, 400)
    const { status, stderr } = await command(...line.split(' '))
    expect({ status, stderr }).toEqual({ status: 1, stderr: `edge ${line.split(' ')[0]}: enough (bad_request)\n` })
    expect(api().requests).toMatchObject([{ method: 'GET', url, headers: { authorization: `Bearer ${ADMIN_TOKEN}` } }])
  })

  test.each(['events x', 'changes x', 'events --since', 'changes --type reject', 'events --follow --limit 3'])(
    'not edge %s',
    async (line) => {
      const { status, stdout, stderr } = await command(...line.split(' '))
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
      expect(stderr).toMatch(/; see edge \w+ --help\n$/)
      expect(api().requests).toEqual([])
    },
  )
})

describe('what edge events prints', () => {
  test('a line for each event', async () => {
    api().says({ since: TIME, complete: true, events: [REJECT, { time: TIME, event: 'started', msg: 'edge started' }] })
    expect((await command('events')).stdout).toBe(`${REJECT_LINE}${TIME}  started             edge started\n`)
    api().says({ since: TIME, complete: true, events: [] })
    expect((await command('events')).stdout).toBe(`No events since ${TIME}.\n`)
    api().says({ since: TIME, complete: false, events: [REJECT] })
    expect((await command('events')).stdout).toBe(
      `${REJECT_LINE}Some events are missing: there was no room for all, or there are more than --limit.\n`,
    )
  })

  test('one line for events about requests of a kind until something else happens, and each with --type', async () => {
    const at = (second: number): string => TIME.replace(':00Z', `:0${second}Z`)
    const reject = (second: number, rule: string, unlogged = 0) => ({
      ...REJECT,
      time: at(second),
      rule,
      reason: 'quota_exceeded',
      unlogged,
    })
    const shadow = { ...reject(2, 'trial'), event: 'would_reject', msg: 'request would be rejected', limit_keys: [] }
    const many = Array.from({ length: 7 }, (_, i) => reject(8, `rule-${i}`))
    const started = { time: at(7), event: 'started', msg: 'edge started' }
    const events = [reject(1, 'per-key'), shadow, reject(3, 'per-ip'), reject(4, 'per-key', 998), started, ...many]
    api().says({ since: TIME, complete: true, events })
    expect((await command('events')).stdout.split('\n')).toEqual([
      `${at(1)}  reject              1,001 requests until ${at(4)}: 1,000 × api per-key quota_exceeded, 1 × api per-ip quota_exceeded`,
      `${at(2)}  would_reject        request would be rejected: policy=api rule=trial limit_keys=[] reason=quota_exceeded unlogged=0`,
      `${at(7)}  started             edge started`,
      `${at(8)}  reject              7 requests until ${at(8)}: ${[0, 1, 2, 3, 4].map((i) => `1 × api rule-${i} quota_exceeded`).join(', ')}, and at 2 further places`,
      '',
    ])
    const each = (await command('events', '--type', 'reject')).stdout
    expect(each.split('\n')).toHaveLength(events.length + 1)
  })

  test('a line as soon as it comes with --follow, until the stream ends', async () => {
    const chunks = ['retry: 3000\n\n:\n\nevent: reject\nda', `ta: ${JSON.stringify(REJECT)}\nid: 7\n`, '\n']
    api().respond = (res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      for (const chunk of chunks) res.write(chunk)
      res.end()
    }
    const shown = await command('events', '--follow')
    expect(shown).toMatchObject({ status: 1, stdout: REJECT_LINE })
    expect(shown.stderr).toBe('edge events: the stream of events has ended: the instance stops, or something between it and here\n')
    expect((await command('events', '--follow', '--json')).stdout).toBe(`${JSON.stringify(REJECT)}\n`)
  })

  test('a sentence where a stream breaks off, never ends or cannot be read', async () => {
    api().respond = (res) => {
      res.write('event: reject\n')
      setImmediate(() => res.destroy())
    }
    expect((await command('events', '-f')).stderr).toMatch(/is unreachable: (aborted|the connection was closed)\n$/)
    api().respond = (res) => void res.end(`data: ${'x'.repeat(1024 * 1024 + 1)}`)
    expect((await command('events', '-f')).stderr).toContain('an event without an end')
    api().respond = (res) => void res.end('data: {\n\n')
    expect((await command('events', '-f')).stderr).toContain('cannot read the events; --json prints them')
  })

  test('nothing that a terminal obeys', async () => {
    const evil = { [EVIL]: EVIL, time: EVIL, event: EVIL, msg: EVIL, list: [EVIL] }
    api().says({ since: TIME, complete: true, events: [evil] })
    expect((await command('events')).stdout).not.toMatch(UNPRINTABLE)
    api().says({
      since: TIME,
      complete: true,
      changes: [{ ...CHANGE, change: 'override_set', actor: EVIL, reason: EVIL, policy: EVIL, id: EVIL }],
    })
    expect((await command('changes')).stdout).not.toMatch(UNPRINTABLE)
    for (const args of [
      ['events', '-f'],
      ['events', '-f', '--json'],
    ]) {
      api().respond = (res) => void res.end(`data: ${JSON.stringify(evil)}\n\n`)
      expect((await command(...args)).stdout).not.toMatch(UNPRINTABLE)
    }
  })
})

test('edge changes says who changed what and why', async () => {
  const until = '2026-11-16T13:35:00Z'
  const changes = [
    { ...CHANGE, change: 'counter_reset', ...ALICE, actor: 'ada', reason: 'sorry' },
    {
      ...CHANGE,
      change: 'override_edited',
      ...ALICE,
      id: 'b3',
      actor: 'max',
      reason: 'milder',
      before: 'block',
      after: 'multiply 2',
      until,
    },
    { ...CHANGE, change: 'override_ended', ...ALICE, id: 'b2', actor: 'eve', reason: 'over', before: 'block', until },
    {
      ...CHANGE,
      change: 'override_set',
      ...ALICE,
      values: null,
      id: 'b2',
      actor: 'bob',
      reason: 'x',
      before: 'multiply 2',
      after: 'block',
      until,
    },
    { ...CHANGE, change: 'override_set', id: 'a1', actor: 'ada', reason: 'fire', after: 'shadow_all', until },
    { ...CHANGE, change: 'bundle_refused', before: '2', after: '2', source: '/b.yaml', detail: 'rate: wrong' },
    { ...CHANGE, change: 'bundle_applied', before: '1', after: '2', source: '/b.yaml' },
    { ...CHANGE, change: 'key_issued' },
  ]
  api().says({ since: TIME, complete: false, changes })
  expect((await command('changes')).stdout).toBe(`  TIME                  BY   CHANGE
  ${TIME}  ada  counters of api per-key header:x-k=alice reset: sorry
  ${TIME}  max  override b3 for api per-key header:x-k=alice edited: block -> multiply 2 until ${until}: milder
  ${TIME}  eve  override b2 for api per-key header:x-k=alice ended, it was block: over
  ${TIME}  bob  override b2 for api per-key, all callers: multiply 2 -> block until ${until}: x
  ${TIME}  ada  override a1 for all policies: shadow_all until ${until}: fire
  ${TIME}  -    bundle from /b.yaml refused, 2 stays: rate: wrong
  ${TIME}  -    bundle 2 in place of 1, from /b.yaml
  ${TIME}  -    key_issued

The list covers the time since ${TIME}.
Some changes are missing: there was no room for all, or there are more than --limit.
`)
  api().says({ since: TIME, complete: true, changes: [] })
  expect((await command('changes')).stdout).toBe(`No changes. The list covers the time since ${TIME}.\n`)
})

test('the commands show what a running service has done', async () => {
  const edge = await running({
    bundle: bundle(1, policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 1, 0.001)] })),
    env: ADMIN_ENV,
  })
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
  await edge.decideTimes(2, { uri: '/x', fields: [['X-K', 'alice']] })
  expect((await command('reset', 'api', 'per-key', 'header:x-k=alice', '--reason', 'sorry')).status).toBe(0)
  expect((await command('events', '--type', 'reject,counter_reset')).stdout).toMatch(
    /^\S+Z {2}reject {14}request rejected: policy=api rule=per-key .*\n\S+Z {2}counter_reset {7}an operator reset counters: actor=ada reason=sorry .*\n$/,
  )
  expect((await command('changes')).stdout).toMatch(
    / ada {2}counters of api per-key header:x-k=alice reset: sorry\n.* - {4}bundle 1 is the first one, from /,
  )
  expect((await command('events', '--type', 'nope')).stderr).toBe('edge events: event: there is no event "nope" (bad_request)\n')
})

test('a backend behind the port of the proxy never sees the token', async () => {
  const backend = await HttpBackend.start()
  const edge = await proxying(backend, { env: ADMIN_ENV })
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.port}`)
  for (const args of [['status'], ['events', '-f'], ['reset', 'a', 'b', 'bearer=hunter2', '--reason', 'x']]) {
    const { status, stderr } = await command(...args)
    expect(status).toBe(1)
    expect(stderr).toContain('has no admin API (it responded with status 200), so the token was not sent')
  }
  expect(backend.seen.map(({ method, url }) => `${method} ${url}`)).toEqual(Array(3).fill('GET /admin/v1/status'))
  expect(JSON.stringify(backend.seen.map(({ rawHeaders }) => rawHeaders))).not.toMatch(
    new RegExp(`${ADMIN_TOKEN}|hunter2|authorization`, 'i'),
  )
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
  expect((await command('status')).status).toBe(0)
})
