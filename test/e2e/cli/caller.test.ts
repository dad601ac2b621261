import { execFileSync } from 'node:child_process'
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { nextCommands, shellQuoted } from '../../../src/cli/admin/next-commands.ts'
import { isCredential } from '../../../src/policy/descriptor-key.ts'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { blockRule, bucketRule, bundle, llmRule, matching, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { command } from '../../support/service/command.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

/** So few tokens a second that none comes back while a test runs. */
const HARDLY_ANY = 0.0001

const BUNDLE = bundle(
  1,
  policy('api', {
    selector: { pathPrefix: '/api', methods: ['POST'], hosts: ['*.example.com'] },
    rules: [
      bucketRule('per-key', ['header:x-k'], 4, HARDLY_ANY),
      bucketRule('per-pair', ['header:x-k', 'ip:address'], 9, HARDLY_ANY),
      bucketRule('per-token', ['bearer'], 1, HARDLY_ANY),
    ],
  }),
  policy('trial', { mode: 'shadow', rules: [matching({ 'header:x-plan': 'free' }, bucketRule('per-key', ['header:x-k'], 2, HARDLY_ANY))] }),
  policy('bans', { rules: [blockRule('banned', { 'header:x-org': 'mallory' })] }),
)

describe('edge caller', () => {
  const owner = thisSuite()
  const clock = new ManualClock()
  let edge: Edge
  beforeAll(async () => {
    edge = await running({ bundle: BUNDLE, env: ADMIN_ENV, clock }, owner)
    const ask = (times: number, ...fields: (readonly [string, string])[]) =>
      edge.decideTimes(times, { method: 'POST', uri: '/api/x', host: 'a.example.com', fields })
    await ask(4 + 3, ['X-K', "o'hara & co"])
    clock.advance(90_000)
    await ask(1, ['X-K', "o'hara & co"])
    const trial = [['X-K', "o'hara & co"] as const, ['X-Plan', 'free'] as const]
    await edge.decideTimes(1, { uri: '/other', fields: trial })
    await ask(2, ['Authorization', 'Bearer hunter2'])
    await ask(1, ['X-K', 'bob'])
  })
  beforeEach(() => {
    vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
    vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
    vi.stubEnv('USER', 'ada')
  })
  afterEach(() => {
    vi.unstubAllEnvs()
  })

  async function said(...args: string[]): Promise<string> {
    const { status, stdout, stderr } = await command('caller', ...args)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    return stdout
  }

  test('of a caller with a stream in flight says what that has reserved, and proposes a block that ends it', async () => {
    const backend = await scriptedLlm()
    const rules = [llmRule('tokens', ['header:x-k'], { tokens_per_day: 9000 })]
    const env = { ...ADMIN_ENV, EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend) }
    const proxy = await running({ bundle: bundle(1, policy('llm', { rules })), env, clock: new ManualClock() })
    vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${proxy.adminPort}`)
    const asked = JSON.stringify({ messages: HELLO, max_tokens: 500, stream: true })
    const client = new StreamClient(proxy.port, CHAT, asked, [['X-K', 'bob']])
    const call = await backend.next()
    const text = await said('header:x-k=bob')
    expect(text).toContain('8,497 of 9,000 tokens left today, 503 reserved by requests in flight')
    expect(text).toContain("  edge override llm tokens header:x-k=bob --block --cut-streams --until 1h --reason 'why'\n")
    expect((await command('counters', 'llm', 'tokens', 'header:x-k=bob')).stdout).toContain('503 reserved by requests in flight')
    call.answer(502, {})
    await client.untilClosed()
    await until(async () => !(await said('header:x-k=bob')).includes('--cut-streams'))
  })

  test('says of a value alone which rules know it, since when it is rejected, and how to go on', async () => {
    expect(await said("o'hara & co")).toBe(`2 of 3 rules that may count this value know it.

api / per-key
  caller    header:x-k=o'hara & co
  bucket    0 of 4 requests left, full again in 11 h 5 min
  rejected  4 times in the last hour, 4 lately: first 2026-01-15T12:00:00Z, last 2026-01-15T12:01:30Z

trial / per-key (shadow: rejects nothing)
  caller   header:x-k=o'hara & co
  bucket   1 of 2 requests left, full again in 2 h 46 min
  applies  only where its match covers header:x-plan too

Rules that need more values
  api / per-pair  also needs ip:address

To look them up, set the variables in
  edge caller --policy=api header:x-k="$VALUE" ip:address="$ADDRESS"

Go on with
  edge explain -H 'x-k: o'\\''hara & co' -X POST --host www.example.com /api
  edge counters api per-key 'header:x-k=o'\\''hara & co'
  edge override api per-key 'header:x-k=o'\\''hara & co' --multiply 2 --until 1h --reason 'why'
  edge override api per-key 'header:x-k=o'\\''hara & co' --unlimited --until 1h --reason 'why'
  edge reset api per-key 'header:x-k=o'\\''hara & co' --reason 'why'
  edge override api per-key 'header:x-k=o'\\''hara & co' --block --until 1h --reason 'why'
`)
  })

  test('a lookup that it proposes finds the rule once the variables are set, and refuses while they are not', async () => {
    const [, lookup] = /To look them up, set the variables in\n {2}(.*)\n/.exec(await said('header:x-k=bob'))!
    expect(lookup).toBe('edge caller --policy=api header:x-k=bob ip:address="$ADDRESS"')
    expect(await said(...typed(lookup!, { ADDRESS: '203.0.113.7' }).slice(1))).toContain('api / per-pair')
    expect((await command(...typed(lookup!))).stderr).toContain('"ip:address" is empty')
  })

  test('says of a key and a value which rules count nothing, and which need more values', async () => {
    const text = await said('header:x-k=bob')
    expect(text).toContain('1 of 2 rules that may count this caller knows it.\n')
    expect(text).toContain('api / per-key\n  caller  header:x-k=bob\n  bucket  3 of 4 requests left, ')
    expect(text).not.toContain('rejected')
    expect(text).toContain('Nothing is counted for this caller now by\n  trial / per-key  2 of 2 requests left (shadow)\n')
    expect(text).toContain('Rules that need more values\n  api / per-pair  also needs ip:address\n')
    expect(await said('header:x-org=mallory')).toContain(
      'bans / banned\n  caller  everybody that its match covers\n  block   rejects every request that its match covers with 403\n',
    )
  })

  test('a credential is shown as its digest alone, and the commands take it from there', async () => {
    for (const asked of ['hunter2', 'bearer=hunter2']) {
      const text = await said(asked)
      const digest = /caller {4}bearer=([0-9a-f]{16})\n/.exec(text)![1]!
      expect(text).not.toContain('hunter2')
      expect(text).toContain('  edge explain -H "Authorization: Bearer $TOKEN" -X POST --host www.example.com /api\n')
      expect(text).toContain(`  edge override api per-token bearer=${digest} --block --until 1h --reason 'why'\n`)
      expect(text).not.toContain('edge counters')
      expect(text).toContain(`  edge override api per-token bearer=${digest} --multiply 2 --until 1h --reason 'why'\n`)
      expect(text).not.toContain('edge reset')
      for (const asDigest of [digest, `bearer=${digest}`]) {
        const byDigest = await said(asDigest)
        expect(byDigest).toContain(
          `  caller    bearer=${digest}\n  counters  not known from a digest; give the credential itself\n  rejected  1 time`,
        )
        expect(byDigest).not.toContain('full')
      }
      const { status, stderr } = await command('counters', 'api', 'per-token', `bearer=${digest}`)
      expect([status, stderr]).toEqual([
        1,
        expect.stringContaining('bearer: this may be a digest, and counters are found only by the credential'),
      ])
    }
  })

  test('says in a sentence that nobody knows the caller', async () => {
    const nothing = 'no rule counts anything for it now, it was not rejected in the last hour, and no override names it'
    const spelling = 'Values are compared exactly: check the spelling.'
    expect(await said('acne', '--policy', 'trial')).toBe(`Nothing is known of this value: ${nothing}. ${spelling}\n`)
    const byDigest = await said('bearer=0123456789abcdef')
    expect(byDigest).toContain('Nothing is known of this caller: it was not rejected in the last hour, and no override names it. ')
    expect(byDigest).toContain('Rules that may count this caller\n  api / per-token  not known from a digest; give the credential itself\n')
    expect(await said('x-k=bob')).toContain(
      'If you meant KEY=VALUE: a key begins with its kind, as caller:x-k=…, header:x-k=… and jwt:x-k=… do.\n',
    )
    expect(await said('header:x-kk=acme')).toBe(
      `Nothing is known of this caller: ${nothing}. ${spelling}\n\nNo rule of the active bundle has the key header:x-kk.\n`,
    )
  })

  test('overrides are listed, with the command that ends them', async () => {
    const body = { policy: 'api', rule: 'per-key', values: { 'header:x-k': 'eve' }, block: true, until: '2h', reason: 'ticket 4711' }
    const { id } = (await askAdmin(edge.adminPort, 'POST', 'overrides', { body, actor: 'ada' })).json
    clock.advance(10_000) // by then it is in force
    const text = await said('header:x-k=eve')
    expect(text).toContain(`  override  ${id}: blocked until 2026-01-15T14:01:30Z\n`)
    expect(text).toContain(`Overrides\n  ${id}  blocked: api / per-key, header:x-k=eve, until 2026-01-15T14:01:30Z, by ada: ticket 4711\n`)
    expect(text).toContain(`  edge override --edit ${id} --until 1h --reason 'why'\n  edge override --end ${id} --reason 'why'\n`)
  })

  test('every command that it proposes does what it says, typed as it stands', async () => {
    const customer = "it's $HOME"
    const fields = [['X-K', customer] as const]
    await edge.decideTimes(4, { method: 'POST', uri: '/api/x', host: 'a.example.com', fields })
    const proposed = (text: string) => text.split('Go on with\n')[1]!.trim().split('\n  ')
    const first = proposed(await said(`header:x-k=${customer}`))
    expect(first.map((line) => line.split(' ')[1])).toEqual(['explain', 'counters', 'override', 'override', 'reset', 'override'])
    for (const line of first) {
      const { status, stdout, stderr } = await command(...typed(line))
      expect({ line, status, stderr }).toEqual({ line, status: 0, stderr: '' })
      if (!line.includes(' --block ') && line.startsWith('edge override')) {
        const [, id] = /^([0-9a-f]{12})\n/.exec(stdout)!
        expect((await command('override', '--end', id!, '--reason', 'next')).status).toBe(0)
      }
    }
    clock.advance(10_000) // by then it is in force
    const then = proposed(await said(`header:x-k=${customer}`))
    expect(then.slice(-2).map((line) => line.replace(/[0-9a-f]{12}/, 'ID'))).toEqual([
      "edge override --edit ID --until 1h --reason 'why'",
      "edge override --end ID --reason 'why'",
    ])
    expect(then.filter((line) => line.includes('--multiply') || line.includes('--block'))).toEqual([])
    for (const line of then.slice(-2)) expect(await command(...typed(line))).toMatchObject({ status: 0, stderr: '' })
  })

  test('--json prints the response, and --policy narrows it', async () => {
    const asked = { values: { 'header:x-k': 'bob' }, policy: 'api' }
    const { json } = await askAdmin(edge.adminPort, 'POST', 'callers', { body: asked })
    expect(JSON.parse(await said('--json', '--policy', 'api', 'header:x-k=bob'))).toEqual(json)
    expect(json.rules).toHaveLength(1)
  })

  test.each([
    [[], 'expected KEY=VALUE, such as header:x-api-key=alice, or a value alone'],
    [['header:x-k=a', 's3cret'], 'number 2 has no key'],
    [['header:x-k=a', 'header:x-k=b'], 'header:x-k is given twice'],
    [['a', '--policy', ''], '--policy: expected the id of a policy'],
    [['a', '--policy', 'nope'], 'there is no policy "nope" in the active bundle (unknown_policy)'],
    [['ip:adress=1'], '"ip:adress" is no descriptor key: did you mean "ip:address"? (wrong_values)'],
  ])('refuses %j', async (args, problem) => {
    const { status, stdout, stderr } = await command('caller', ...args)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(problem)
    expect(stderr).not.toContain('s3cret')
  })
})

describe('edge caller of an else rule', () => {
  test('says to whom it applies, and what that depends on', async () => {
    const rules = [matching({ 'header:x-k': '*' }, bucketRule('team', ['header:x-team'], 4)), blockRule('rest', 'else')]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), env: ADMIN_ENV })
    vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
    vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
    const { stdout } = await command('caller', 'header:x-k=acme')
    vi.unstubAllEnvs()
    expect(stdout).toContain(`p / rest
  caller   everybody that no other rule of the policy matches
  block    rejects every request that no other rule of the policy matches with 403
  applies  only where no other rule of the policy with a match does, which depends on header:x-team
`)
    expect(stdout).toContain('  edge caller --policy=p header:x-team="$X_TEAM"\n')
  })
})

/** The words of a command as a shell reads them, without `edge`. */
function typed(line: string, env: Readonly<Record<string, string>> = {}): string[] {
  const words = execFileSync('sh', ['-c', `printf '%s\\0' ${line}`], { env: { ...env, PATH: process.env['PATH'] } })
  return words.toString().split('\0').slice(1, -1)
}

test('a shell reads what is quoted as one word, whatever it contains', () => {
  const texts = ['a b', "it's", '$(touch /tmp/owned)', '`x`', 'a\\', '"', '*', '~', '!x', '', '#', 'a;b', '&', 'é', "'''", '-x', 'a\tb']
  for (const text of texts) expect(execFileSync('sh', ['-c', `printf %s ${shellQuoted(text)}`]).toString()).toBe(text)
})

test.each([
  [{ 'query:k': 'a&b c' }, { pathExact: '/x' }, "edge explain '/x?k=a%26b%20c'"],
  [{ 'ip:address': '2001:db8::/64' }, {}, "edge explain -H 'X-Forwarded-For: 2001:db8::' /"],
  [{ 'cookie:sid': '0123456789abcdef' }, {}, 'edge explain -H \'Cookie: sid=\'"$COOKIE" /'],
  [{ 'header:authorization': '0123456789abcdef' }, {}, 'edge explain -H \'authorization: \'"$CREDENTIAL" /'],
])('%j is explained by a request that has it', (values, selector, explain) => {
  expect(nextCommands({ ...SUBJECT, values, inBundle: { selector, algorithm: 'token_bucket' } })[0]).toBe(explain)
})

test.each([
  'bearer',
  'cookie:sid',
  'header:authorization',
  'header:proxy-authorization',
  'header:cookie',
  'header:x-cookie',
  'jwt:sub',
  'query:bearer',
])('counters are proposed for %s unless it is a credential, which is never shown', (key) => {
  const commands = nextCommands({ ...SUBJECT, values: { [key]: 'x' } })
  for (const name of ['counters', 'reset']) expect(commands.some((line) => line.startsWith(`edge ${name}`))).toBe(!isCredential(key))
})

const SUBJECT = {
  policy: 'p',
  rule: 'r',
  inBundle: { selector: {}, algorithm: 'token_bucket' },
  isCounted: true,
  isInFlight: false,
  overrides: [],
}

test('no command is proposed that could not find the caller, or would change what everybody has', () => {
  for (const value of ['\\u{7}', `${'x'.repeat(127)}…`]) expect(nextCommands({ ...SUBJECT, values: { 'header:x-k': value } })).toEqual([])
  expect(nextCommands({ ...SUBJECT, values: {} })).toEqual(['edge explain /', 'edge counters p r'])
  const domain = { ...SUBJECT, inBundle: { selector: { domain: 'd' }, algorithm: 'token_bucket' }, values: { 'descriptor:user': 'x' } }
  expect(nextCommands(domain)[0]).toBe('edge counters p r descriptor:user=x')
  expect(nextCommands({ ...SUBJECT, values: { 'header:x-k': 'x' }, inBundle: undefined })).toEqual([])
})

test.each([
  ['token_bucket', ['--multiply', '--unlimited', 'reset', '--block']],
  ['unlimited', ['--block']],
  ['block', ['--unlimited']],
])('changes are proposed that a rule with algorithm %s can have', (algorithm, expected) => {
  const commands = nextCommands({ ...SUBJECT, values: { 'header:x-k': 'x' }, inBundle: { selector: {}, algorithm } })
  expect(commands.flatMap((line) => /--multiply|--unlimited|--block|reset/.exec(line) ?? [])).toEqual(expected)
})

test('names that look like options are names all the same', () => {
  const commands = nextCommands({ ...SUBJECT, policy: '-p', values: { 'header:x-k': 'x' } })
  expect(commands).toContain("edge override --multiply 2 --until 1h --reason 'why' -- -p r header:x-k=x")
  expect(commands).toContain('edge counters -- -p r header:x-k=x')
  expect(nextCommands({ ...SUBJECT, isCounted: false, values: { 'header:x-k': 'x' } }).some((line) => line.includes('reset'))).toBe(false)
})
