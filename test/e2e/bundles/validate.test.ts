import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import {
  blockRule,
  bucketRule,
  budgetRule,
  bundle,
  concurrencyRule,
  llmRule,
  policy,
  unlimitedRule,
} from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'
import { finished, scratchDirectory } from '../../support/service/running.ts'

// What is said of each bad bundle: src/bundle/bundle-intake.test.ts. Through the program: validate.slow.test.ts.
const GOOD = JSON.stringify(bundle(7, policy('p', { rules: [bucketRule('r', [], 10)] })))

describe('the program edge validate', () => {
  test('good and bad files in one call: 1, and each gets its own verdict', async (t) => {
    const good = await fileWith(t, 'good.json', GOOD)
    const bad = await fileWith(t, 'bad.json', '{}')
    const alsoGood = await fileWith(t, 'good.yml', 'bundle_version: "8"\npolicies: []\n')
    const { status, stdout, stderr } = await finished(['validate', good, bad, alsoGood], {}, t)
    expect(status).toBe(1)
    expect(stdout).toBe(`${good}: ok, version 7, 1 policy\n${alsoGood}: ok, version 8, 0 policies\n`)
    expect(stderr).toMatch(/bad\.json:1:1: error: bundle_version: /)
    expect(stderr).not.toContain(good)
  })
})

describe('edge validate', () => {
  test('a good bundle: 0, with its version and number of policies', async (t) => {
    const file = await fileWith(t, 'good.json', GOOD)
    expect(await command('validate', file)).toEqual({ status: 0, stdout: `${file}: ok, version 7, 1 policy\n`, stderr: '' })
  })

  test('several good files: 0', async (t) => {
    const files = [await fileWith(t, 'a.json', GOOD), await fileWith(t, 'b.json', GOOD)]
    expect((await command('validate', ...files)).status).toBe(0)
  })

  test('a file that is not there: 1, and says so', async () => {
    const { status, stderr } = await command('validate', 'no/such/bundle.json')
    expect(status).toBe(1)
    expect(stderr).toBe('no/such/bundle.json: there is no such file\n')
  })

  test('a bundle larger than any instance takes: 1, and says so', async (t) => {
    const file = await fileWith(t, 'large.json', `${GOOD}${' '.repeat(16 * 1024 ** 2)}`)
    const { status, stdout, stderr } = await command('validate', file)
    expect({ status, stdout, stderr }).toEqual({ status: 1, stdout: '', stderr: `${file}: it has more than 16777216 bytes\n` })
  })

  test('a directory: 1, and says so', async (t) => {
    const directory = join(await scratchDirectory(t), 'bundle.json')
    await mkdir(directory)
    const { status, stderr } = await command('validate', directory)
    expect(status).toBe(1)
    expect(stderr).toContain(directory)
    expect(stderr).toMatch(/directory/i)
  })

  describe('--mode', () => {
    const byHost = policy('tenants', { selector: { hosts: ['api.example.com'], pathPrefix: '/v1' }, rules: [bucketRule('r', [], 10)] })
    const WARNING =
      'warning: policies[0].spec.selector.hosts: in reverse_proxy, requests for "/v1" with any other Host reach the same backend without this limit: add a policy without hosts that limits them too, or one that blocks other hosts\n'

    test('reverse_proxy warns of paths that other hosts reach without a limit', async (t) => {
      const file = await fileWith(t, 'hosts.json', JSON.stringify(bundle(1, byHost)))
      const stdout = `${file}: ok, version 1, 1 policy\n`
      expect(await command('validate', '--mode', 'reverse_proxy', file)).toEqual({ status: 0, stdout, stderr: `${file}:1:69: ${WARNING}` })
      expect(await command('validate', file)).toEqual({ status: 0, stdout, stderr: '' })
      expect(await command('validate', '--mode=decision_service', file)).toEqual({ status: 0, stdout, stderr: '' })
      const rest = policy('rest', { rules: [bucketRule('r', [], 10)] })
      const covered = await fileWith(t, 'covered.json', JSON.stringify(bundle(1, byHost, rest)))
      expect((await command('validate', '--mode', 'reverse_proxy', covered)).stderr).toBe('')
    })

    test('reverse_proxy says nothing of requests in flight, whose end it sees itself', async (t) => {
      const file = await fileWith(t, 'held.json', JSON.stringify(bundle(1, policy('p', { rules: [concurrencyRule('c', [], 10)] }))))
      expect((await command('validate', '--mode', 'reverse_proxy', file)).stderr).toBe('')
      expect((await command('validate', '--mode', 'decision_service', file)).stderr).toContain('note: policy "p", rule "c"')
    })

    test('decision_service says of reserve that it has no effect, and reverse_proxy does not', async (t) => {
      const rules = [
        llmRule('tokens', [], { tokens_per_day: 200_000, reserve: {} }),
        budgetRule('money', [], { budget: 500, period: '1mo', prices: 'list', reserve: {} }),
        llmRule('whole', [], { tokens_per_day: 200_000 }),
        unlimitedRule('other', { 'ip:address': '192.0.2.1' }),
      ]
      const text = { ...bundle(1, policy('p', { rules })), prices: { list: { '*': { input: 1, output: 1 } } } }
      const file = await fileWith(t, 'growing.json', JSON.stringify(text))
      const end =
        'in decision_service reserve has no effect, because no stream passes through edge: each request reserves its longest completion'
      expect((await command('validate', '--mode', 'decision_service', file)).stderr).toBe(
        `${file}: note: policy "p", rule "tokens": ${end}\n${file}: note: policy "p", rule "money": ${end}\n`,
      )
      expect((await command('validate', '--mode', 'reverse_proxy', file)).stderr).toBe('')
    })

    test('decision_service says of wait_seconds that it has no effect, and reverse_proxy does not', async (t) => {
      const rules = [{ ...bucketRule('r', [], 10), wait_seconds: 5 }, bucketRule('other', [], 10)]
      const file = await fileWith(t, 'waiting.json', JSON.stringify(bundle(1, policy('p', { rules }))))
      expect((await command('validate', '--mode', 'decision_service', file)).stderr).toBe(
        `${file}: note: policy "p", rule "r": in decision_service wait_seconds has no effect, because gateways are answered at once\n`,
      )
      expect((await command('validate', '--mode', 'reverse_proxy', file)).stderr).toBe('')
    })

    test('another one: 1, and says which there are', async (t) => {
      const file = await fileWith(t, 'good.json', GOOD)
      const stderr = 'edge validate: --mode: expected decision_service or reverse_proxy, got "proxy"\n'
      expect(await command('validate', '--mode', 'proxy', file)).toEqual({ status: 1, stdout: '', stderr })
    })
  })

  test('no file: 1, and asks for one', async () => {
    const { status, stderr } = await command('validate')
    expect(status).toBe(1)
    expect(stderr).toContain('Usage: edge validate [--mode MODE] FILE...')
  })

  test('an unknown field refuses the bundle, with a suggestion', async (t) => {
    const file = await fileWith(t, 'odd.json', GOOD.replace('"burst":10', '"burst":10,"burts":20'))
    const { status, stdout, stderr } = await command('validate', file)
    expect([status, stdout]).toEqual([1, ''])
    expect(stderr).toBe(`${file}:1:168: error: policies[0].spec.rules[0].algorithm_config: unknown field "burts": did you mean "burst"?\n`)
  })

  test('a field that other readers of bundles know is a warning, and metadata is none', async (t) => {
    const file = await fileWith(t, 'notes.json', GOOD.replace('{', '{"metadata":{"owner":"team"},"issued_at":"2026-01-01","x-ticket":7,'))
    const { status, stdout, stderr } = await command('validate', file)
    expect([status, stdout]).toEqual([0, `${file}: ok, version 7, 1 policy\n`])
    expect(stderr).toBe(
      `${file}:1:30: warning: unknown field "issued_at": it is ignored\n${file}:1:55: warning: unknown field "x-ticket": it is ignored\n`,
    )
  })

  test('a rule on requests in flight is noted: where nobody reports their ends, each counts for hold_seconds', async (t) => {
    const rules = [bucketRule('r', [], 10), concurrencyRule('short', [], 5, 1), concurrencyRule('usual', [], 5)]
    const file = await fileWith(t, 'holds.json', JSON.stringify(bundle(7, policy('p', { rules }))))
    const { status, stdout, stderr } = await command('validate', file)
    expect([status, stdout]).toEqual([0, `${file}: ok, version 7, 1 policy\n`])
    const end = '(hold_seconds), unless its end is reported to /v1/settle'
    expect(stderr).toBe(
      `${file}: note: policy "p", rule "short": in decision_service each request counts as in flight for 1 second ${end}\n` +
        `${file}: note: policy "p", rule "usual": in decision_service each request counts as in flight for 60 seconds ${end}\n`,
    )
  })

  test('a misspelt field is named beside the problem that it causes', async (t) => {
    const file = await fileWith(t, 'odd.json', GOOD.replace('"algorithm":', '"algoritm":'))
    const { status, stderr } = await command('validate', file)
    expect(status).toBe(1)
    expect(stderr).toContain('error: policies[0].spec.rules[0].algorithm: expected "token_bucket", ')
    expect(stderr).toContain('policies[0].spec.rules[0]: unknown field "algoritm": did you mean "algorithm"?')
  })

  test('a JSON syntax error is placed by line and column', async (t) => {
    const file = await fileWith(t, 'odd.json', '{"bundle_version": 1,\n "policies": [}\n')
    expect((await command('validate', file)).stderr).toContain('line 2, column 15')
  })

  test('a YAML syntax error is placed by line and column', async (t) => {
    const file = await fileWith(t, 'odd.yaml', 'bundle_version: 1\npolicies: [}\n')
    expect((await command('validate', file)).stderr).toContain('line 2, column 12')
  })

  test('a budget that can never cover one request is a warning', async (t) => {
    const rule = llmRule('r', [], { tokens_per_minute: 10, max_completion_tokens: 500 })
    const file = await fileWith(t, 'small.json', JSON.stringify(bundle(1, policy('p', { rules: [rule] }))))
    const { status, stderr } = await command('validate', file)
    expect(status).toBe(0)
    expect(stderr).toMatch(/warning: policies\[0\]\.spec\.rules\[0\]\.algorithm_config: .*reserves 500 tokens.*always rejected/)
  })

  test('a budget of money that cannot hold what agents ask for is a warning, which recommends reserve', async (t) => {
    const prices = { list: { large: { input: 5, output: 25 }, '*': { input: 5, output: 25 } } }
    const rule = budgetRule('r', [], { budget: 1, prices: 'list' })
    const file = await fileWith(t, 'money.json', JSON.stringify({ ...bundle(1, policy('p', { rules: [rule] })), prices }))
    const { status, stderr } = await command('validate', file)
    expect(status).toBe(0)
    expect(stderr).toMatch(
      /warning: policies\[0\]\.spec\.rules\[0\]\.algorithm_config: .*always rejected\. With reserve: \{\} a stream reserves 0\.05\n/,
    )
  })

  test('a block that has expired is a warning, and one that has not is none', async (t) => {
    const rules = ['2001-01-01T00:00:00Z', '2999-01-01T00:00:00Z'].map((expires_at, i) =>
      blockRule(`b${i}`, { bearer: 'x' }, { expires_at }),
    )
    const file = await fileWith(t, 'block.json', JSON.stringify(bundle(7, policy('p', { rules }))))
    const { status, stderr } = await command('validate', file)
    expect(status).toBe(0)
    const path = 'policies[0].spec.rules[0].algorithm_config.expires_at'
    expect(stderr).toBe(`${file}:1:136: warning: ${path}: the block expired at 2001-01-01T00:00:00Z and blocks nobody: remove it\n`)
  })

  test('an exemption by a claim that nobody has verified is a warning', async (t) => {
    const rules = [unlimitedRule('staff', { 'jwt:plan': 'staff' })]
    const file = await fileWith(t, 'staff.json', JSON.stringify(bundle(7, policy('p', { rules }))))
    const { status, stderr } = await command('validate', file)
    expect(status).toBe(0)
    expect(stderr).toMatch(
      /^.*: warning: policies\[0\]\.spec\.rules\[0\]\.match\["jwt:plan"\]: .*let the gateway verify the token first, or add callers\.jwt\n$/,
    )
  })
})

async function fileWith(t: TestContext, name: string, content: string): Promise<string> {
  const file = join(await scratchDirectory(t), name)
  await writeFile(file, content)
  return file
}
