import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { blockRule, bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'
import type { Edge } from '../../support/service/edge.ts'
import { loadedFiles } from '../../support/service/loaded-files.ts'
import { finished, running, scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const BUNDLE = bundle(
  1,
  policy('api', { rules: [bucketRule('per-key', ['header:x-k'], 2, 0.001), bucketRule('per-token', ['bearer'], 5, 0.001)] }),
  policy('open', { selector: { pathPrefix: '/open' }, rules: [bucketRule('all', [], 9)] }),
)

const ALICE = { uri: '/x', fields: [['X-K', 'alice']] as const }

afterEach(() => {
  vi.unstubAllEnvs()
})

async function service(env: Readonly<Record<string, string>> = {}, active = BUNDLE): Promise<Edge> {
  const edge = await running({ bundle: active, env: { ...ADMIN_ENV, ...env } })
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
  vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
  vi.stubEnv('USER', 'ada')
  return edge
}

describe('the commands ask a running service', () => {
  test('with --json they print what the API responds', async () => {
    const edge = await service()
    for (const [line, path] of [
      ['status', 'status'],
      ['top api', 'top?policy=api'],
      ['override --list', 'overrides'],
      ['counters open all', 'counters?policy=open&rule=all'],
    ] as const) {
      const { status, stdout } = await command(...line.split(' '), '--json')
      expect(status, line).toBe(0)
      const { json } = await askAdmin(edge.adminPort, 'GET', path)
      expect(Object.keys(JSON.parse(stdout)), line).toEqual(Object.keys(json))
    }
  })

  test('a customer with 429 is explained, lifted and reset', async () => {
    const edge = await service()
    expect(await edge.decideTimes(3, ALICE)).toEqual([200, 200, 429])
    const { stdout: why } = await command('explain', '-H', 'X-K: alice', '/x')
    expect(why).toContain(
      'GET /x: rejected with 429 token_bucket_exceeded\nRule per-key of policy api rejects it.\nheader:x-k=alice has 0 of 2 left',
    )
    const lifted = await command('override', 'api', 'per-key', 'header:x-k=alice', '--multiply', '3', '--until', '2h', '--reason', 'ticket')
    expect(lifted).toMatchObject({ status: 0, stderr: '' })
    expect((await edge.decide(ALICE)).status).toBe(200)
    expect(await untilLogged(edge, 'override_set')).toEqual([
      expect.objectContaining({ actor: 'ada', reason: 'ticket', policy: 'api', rule: 'per-key' }),
    ])
    const id = /^[0-9a-f]+/.exec(lifted.stdout)![0]
    expect((await command('override', '--end', id, '--reason', 'over')).stdout).toBe('Ended.\n')
    expect((await command('reset', 'api', 'per-key', 'header:x-k=alice', '--reason', 'sorry')).stdout).toContain(
      '2 of 2 requests left, full\n',
    )
    expect(await untilLogged(edge, 'counter_reset')).toEqual([expect.objectContaining({ actor: 'ada', reason: 'sorry' })])
  })

  test('a cost that a request states twice is unknown, not 0', async () => {
    const weighed = { ...bucketRule('weighed', [], 4), algorithm_config: { tokens_per_second: 1, burst: 4, cost: { header: 'x-cost' } } }
    await service({}, bundle(1, policy('p', { rules: [weighed] })))
    const asked = ['explain', '-H', 'X-Cost: 2', '-H', 'X-Cost: 3', '/x'] as const
    const { stdout } = await command(...asked)
    expect(stdout).toContain('GET /x: refused with 400 repeated_descriptor\n')
    expect(stdout).toContain('    weighed: does not apply, the request has more than one value for a field that it reads\n')
    expect(JSON.parse((await command(...asked, '--json')).stdout).policies[0].rules[0].cost).toBeNull()
  })

  test('an else is explained by the rule that matches, and by whom it blocks', async () => {
    const rules = [matching({ 'header:x-k': '*' }, bucketRule('per-key', ['header:x-k'], 4)), blockRule('rest', 'else')]
    await service({}, bundle(1, policy('p', { rules })))
    const asked = ['explain', '-H', 'X-K: alice', '/x'] as const
    expect((await command(...asked)).stdout).toContain(
      '    rest: does not apply, because rule per-key matches this request, and this one is for the rest\n',
    )
    expect(JSON.parse((await command(...asked, '--json')).stdout).policies[0].rules).toMatchObject([
      { name: 'per-key', match_else: false, instead: null },
      { name: 'rest', match_else: true, instead: 'per-key', why: 'no_match' },
    ])
    const { stdout } = await command('explain', '/x')
    expect(stdout).toContain('Rule rest of policy p rejects it.\nEvery request that no other rule of the policy matches is blocked.\n')
    expect(stdout).not.toContain('Everybody')
  })

  test('a limit of an else is shared by those that no other rule matches', async () => {
    const rules = [
      matching({ 'header:x-k': '*' }, bucketRule('per-key', ['header:x-k'], 4)),
      matching('else', bucketRule('rest', [], 1, 0.0001)),
    ]
    const edge = await service({}, bundle(1, policy('p', { rules })))
    await edge.decide({ uri: '/x', fields: [] })
    expect((await command('explain', '/x')).stdout).toContain(
      '\nAll callers that no other rule of the policy matches have together 0 of 1 left, and this request takes 1.',
    )
  })

  test('a credential never leaves in a URL, and is shown as a digest', async () => {
    const edge = await service()
    await edge.decide({ uri: '/x', fields: [['Authorization', 'Bearer hunter2']] })
    const { status, stdout } = await command('counters', 'api', 'per-token', 'bearer=hunter2')
    expect(status).toBe(0)
    expect(stdout).toMatch(/^caller {2}bearer=[0-9a-f]{16}\nbucket {2}4 of 5 requests left/m)
    const explained = await command('explain', '-H', 'Authorization: Bearer hunter2', '/x', '--json')
    expect(explained.stdout).not.toContain('hunter2')
    expect(JSON.stringify(edge.log)).not.toContain('hunter2')
  })

  test('nothing is enforced for a while', async () => {
    const edge = await service()
    const { stdout } = await command('override', '--shadow-all', '--until', '30m', '--reason', 'incident', '--yes')
    expect(stdout).toContain('  change  nothing is enforced\n  where   all policies\n')
    expect(await edge.decideTimes(3, ALICE)).toEqual([200, 200, 200])
    expect((await command('status')).stdout).toContain('  SHADOW    nothing is enforced until ')
  })

  test('all callers are blocked only where that is asked for, and it is said first', async () => {
    const edge = await service()
    const block = ['--block', '--until', '2h', '--reason', 'incident']
    expect((await command('override', 'api', 'per-key', ...block)).stderr).toContain('or --all for all callers of the rule')
    expect(await edge.decideTimes(1, ALICE)).toEqual([200])
    const dry = await command('override', 'api', 'per-key', '--all', ...block, '--dry-run')
    expect(dry.stdout).toContain('Nothing was changed.\n  covers  policy api, rule per-key, all callers;')
    expect(await edge.decideTimes(1, ALICE)).toEqual([200])
    const { stdout, stderr } = await command('override', 'api', 'per-key', '--all', ...block, '--yes')
    expect(stderr).toMatch(
      /^This is for all callers:\n {2}covers {2}policy api, rule per-key, all callers; .*\n {2}bucket {2}.* → blocked\n/,
    )
    const id = /^[0-9a-f]+/.exec(stdout)![0]
    expect(await edge.decideTimes(1, ALICE)).toEqual([403])
    const edited = await command(
      'override',
      '--edit',
      id,
      '--multiply',
      '2',
      '--until',
      '3h',
      '--reason',
      'milder',
      '--actor',
      'bob',
      '--yes',
    )
    expect(edited.stdout).toMatch(new RegExp(`^${id}\n {2}change {2}2 times the limit\n(.*\n)* {2}edited {2}bob, .*: milder\n`))
    await command('override', '--end', id, '--reason', 'over')
    const history = (await command('override', '--history')).stdout
    expect(history).toMatch(/ended {3}\S+, ended by ada: over\n\n/)
    expect(history).toMatch(/ended {3}\S+, edited by bob: milder\n/)
  })

  test('what the service refuses is said in its words', async () => {
    await service({ EDGE_TOP: 'off' })
    const refusals: [string, RegExp][] = [
      ['top', /^edge top: .* \(top_off\)\n$/],
      ['counters nope r', /^edge counters: .*"nope".* \(unknown_policy\)\n$/],
      ['counters api nope', /^edge counters: .*"nope".* \(unknown_rule\)\n$/],
      [
        'counters apj per-key header:x-k=a',
        /^edge counters: there is no policy "apj" in the active bundle; did you mean "api"\? \(unknown_policy\)\n$/,
      ],
      [
        'counters api perkey header:x-k=a',
        /^edge counters: policy "api" has no rule "perkey"; did you mean "per-key"\? \(unknown_rule\)\n$/,
      ],
      ['events --type rejects', /^edge events: event: there is no event "rejects" \(did you mean "reject"\?\) \(bad_request\)\n$/],
      ['counters api per-key header:x-other=1', /^edge counters: .*header:x-k.* \(wrong_values\)\n$/],
      ['override api per-key header:x-k=a --multiply 0 --until 1h --reason x', /^edge override: multiply: .* \(bad_request\)\n$/],
      ['override api per-key header:x-k=a --multiply 2 --until 2020-01-01T00:00:00Z --reason x', /^edge override: .* \(bad_until\)\n$/],
      ['override --end nope --reason x', /^edge override: .* \(unknown_override\)\n$/],
      ['explain nonsense\u0007', /^edge explain: uri: .* \(bad_request\)\n$/],
    ]
    for (const [line, expected] of refusals) {
      const { status, stdout, stderr } = await command(...line.split(' '))
      expect({ status, stdout }, line).toEqual({ status: 1, stdout: '' })
      expect(stderr).toMatch(expected)
    }
  })

  test('a second override for one caller needs --replace', async () => {
    const operator = new Operator((await service()).adminPort)
    const args = ['override', 'api', 'per-key', 'header:x-k=a', '--unlimited', '--until', '1h', '--reason', 'x']
    const id = /^[0-9a-f]+/.exec((await command(...args)).stdout)![0]
    const second = await command(...args)
    expect(second).toMatchObject({ status: 1, stdout: '' })
    const [{ until }] = (await operator.overrides()) as unknown as [{ until: string }]
    const inForce = (facts: string): string => `edge override: override ${id} already applies there: ${facts}`
    const time = until.replace(/\.\d+Z$/, 'Z')
    const way = `Nothing was changed: edit it (edge override --edit ${id} --until TIME --reason TEXT), or replace it (--replace ${id}) (override_exists)\n`
    expect(second.stderr).toBe(`${inForce(`unlimited until ${time}, set by ada`)}. ${way}`)
    expect((await command(...args, '--dry-run')).stderr).toBe(second.stderr)
    await command('override', '--edit', id, '--multiply', '2', '--reason', 'milder', '--actor', 'bob')
    expect((await command(...args)).stderr).toBe(`${inForce(`multiply 2 until ${time}, set by ada, edited by bob`)}. ${way}`)
    expect((await command(...args, '--replace', 'abc')).stderr).toContain(', edited by bob, and replace names "abc". Nothing')
    expect((await command(...args, '--replace', id)).status).toBe(0)
  })

  test('--cut-streams is refused where no streams pass through', async () => {
    const edge = await service()
    const args = ['override', 'api', 'per-key', 'header:x-k=alice', '--block', '--until', '1h', '--reason', 'x']
    for (const more of [[], ['--dry-run'], ['--json']]) {
      const { status, stdout, stderr } = await command(...args, '--cut-streams', ...more)
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
      expect(stderr).toBe(
        'edge override: cut_streams (--cut-streams): no streams pass through this instance, because its EDGE_MODE is decision_service. ' +
          'Leave it out: requests are blocked without it, and streams end in your gateway (bad_request)\n',
      )
    }
    expect(await new Operator(edge.adminPort).overrides()).toEqual([])
    expect((await command(...args)).stdout).not.toContain('stream')
  })

  test('a wrong token, and a service without an admin API', async () => {
    await service()
    vi.stubEnv('EDGE_ADMIN_TOKEN', 'x'.repeat(40))
    const { status, stderr } = await command('status')
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: 'edge status: EDGE_ADMIN_TOKEN: this is not the token that edge serve was started with\n',
    })
    const other = await running({ bundle: BUNDLE, env: { EDGE_ADMIN_PORT: '0' } })
    vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${other.adminPort}`)
    expect((await command('status')).stderr).toContain('has no admin API')
  })
})

test('a reader that has seen enough is no problem', async () => {
  const edge = await service()
  const program = fileURLToPath(new URL('../../../program/edge.js', import.meta.url))
  const env = { PATH: process.env['PATH'] ?? '', EDGE_ADMIN_URL: `http://127.0.0.1:${edge.adminPort}`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
  // The program begins to write when nobody reads any more.
  const line = `{ '${process.execPath}' '${program}' status; echo "status $?" >&2; } | true`
  const { stderr } = await promisify(execFile)('sh', ['-c', line], { env })
  expect(stderr).toBe('status 0\n')
})

test('the program loads nothing of the service for these commands', async () => {
  const edge = await service()
  const directory = join(await scratchDirectory(), 'coverage')
  const env = { EDGE_ADMIN_URL: `http://127.0.0.1:${edge.adminPort}`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN, NODE_V8_COVERAGE: directory }
  const { status, stdout } = await finished(['status'], env)
  expect(status).toBe(0)
  expect(stdout).toContain('No problems.\n')
  const [files] = await loadedFiles(directory)
  const program = new URL('../../../program/', import.meta.url)
  const texts = await Promise.all(files!.map((name) => readFile(new URL(name, program), 'utf8')))
  const modules = texts.flatMap((text) => [...text.matchAll(/^\/\/#region dist\/(.*)\.js$/gm)].map(([, name]) => name!))
  expect(modules).toContain('cli/admin/status')
  // Commands, their texts, and the forms of keys that they read.
  expect(modules.filter((name) => !/^(cli|text|files|callers\/keys)\//.test(name))).toEqual([])
  expect(modules.filter((name) => name.startsWith('callers/')).toSorted()).toEqual(['callers/keys/issued-key', 'callers/keys/key-labels'])
  expect(modules.filter((name) => /^(cli\/(serve|test|replay|validate)|text\/.*yaml)/.test(name))).toEqual([])
})
