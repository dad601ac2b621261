import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { bucketRule, bundle, policy, windowRule } from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'
import { finished, running, scratchDirectory } from '../../support/service/running.ts'

const WARNING =
  'warning: policy "p", rule "login": clients that send 1,000 made-up values of header:x-user a second can fill half of the table of 1,958,656 counters (EDGE_STORE_SIZE), which also holds the budgets of policy "p", rule "month": let the gateway check the value, or make the table larger'

test('validate warns of keys that clients make up beside budgets, in a table that is too small for both', async () => {
  const file = await bundleFile()
  const ok = `${file}: ok, version 1, 1 policy\n`
  expect(await command('validate', file)).toEqual({ status: 0, stdout: ok, stderr: `${file}: ${WARNING}\n` })
  const { status, stdout, stderr } = await finished(['validate', file], { EDGE_STORE_SIZE: '256m' })
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: ok, stderr: '' })
})

test('validate notes in reverse_proxy alone that nobody verifies what a rule counts by, and callers could', async () => {
  const file = join(await scratchDirectory(), 'bundle.json')
  const rules = [
    { ...bucketRule('claim', ['jwt:sub'], 1, 1), match: { 'jwt:sub': '*' } },
    { ...bucketRule('others', ['ip:address'], 1, 1), match: 'else' },
  ]
  const jwt = [{ name: 'login', issuer: 'https://login.example.com', audiences: ['api'], jwks_file: 'login.json' }]
  const stderrOf = async (callers: object, ...flags: string[]): Promise<string> => {
    await writeFile(file, JSON.stringify({ ...bundle(1, policy('p', { rules })), ...callers }))
    const { status, stderr } = await command('validate', ...flags, file)
    expect(status).toBe(0)
    return stderr
  }
  expect(await stderrOf({}, '--mode', 'reverse_proxy')).toBe(
    `${file}: note: in reverse_proxy, these rules count by a value that clients choose, p/claim by jwt:sub: unless a gateway in front verifies it, add callers and use caller:id or a label\n`,
  )
  expect(await stderrOf({}, '--mode', 'decision_service')).toBe('')
  expect(await stderrOf({})).toBe('')
  expect(await stderrOf({ callers: { mode: 'enforce', jwt } }, '--mode', 'reverse_proxy')).toBe('')
})

test('validate warns in reverse_proxy alone that a backend gets the tokens of callers', async () => {
  const file = join(await scratchDirectory(), 'bundle.json')
  const jwt = [{ name: 'login', issuer: 'https://login.example.com', audiences: ['edge'], jwks_file: 'login.json' }]
  const backends = { azure: { url: 'https://azure.example', headers: { 'api-key': '{AZURE}' } } }
  await writeFile(
    file,
    JSON.stringify({ ...bundle(1), callers: { mode: 'enforce', jwt }, backends, routes: [{ backends: [{ name: 'azure' }] }] }),
  )
  expect((await command('validate', '--mode', 'reverse_proxy', file)).stderr).toMatch(/backends\.azure: .*gets the tokens of callers/)
  for (const flags of [[], ['--mode', 'decision_service']])
    expect((await command('validate', ...flags, file)).stderr).not.toContain('tokens of callers')
})

test('validate says which rules never apply in a mode, because no request there has what they need', async () => {
  const file = join(await scratchDirectory(), 'bundle.json')
  const rules = [bucketRule('c', ['context:team'], 1), bucketRule('m', ['llm:model'], 1)]
  await writeFile(file, JSON.stringify(bundle(1, policy('p', { rules }))))
  const never = async (...flags: string[]): Promise<string[]> =>
    (await command('validate', ...flags, file)).stderr.split('\n').filter((line) => line.includes('never applies'))
  expect(await never()).toEqual([])
  expect(await never('--mode', 'reverse_proxy')).toEqual([
    expect.stringContaining(
      'rules[0]: without context:team, which nothing provides, the rule never applies: only Envoy sends it, over gRPC, which reverse_proxy does not serve',
    ),
  ])
  expect(await never('--mode', 'decision_service')).toEqual([expect.stringMatching(/note: policies\[0\].*rules\[1\]: without llm:model, /)])
  vi.stubEnv('EDGE_GATEWAY_HINTS', 'on')
  onTestFinished(() => void vi.unstubAllEnvs())
  expect(await never('--mode', 'decision_service')).toEqual([])
})

describe('the recipe of a warning, pasted as it stands', () => {
  const RULES = `      - name: team
        limit_keys: ["header:x-team"]
        algorithm: token_bucket
        algorithm_config: { rate: 3/hour }
`
  const withRules = (rules: string): string => `bundle_version: 1\npolicies:\n- id: p\n  spec:\n    rules:\n${rules}`

  async function validated(rules: string): Promise<string> {
    const file = join(await scratchDirectory(), 'bundle.yaml')
    await writeFile(file, withRules(rules))
    const { status, stderr } = await command('validate', file)
    expect(status).toBe(0)
    return stderr
  }

  test('limits clients that leave the key out by their address, and those that send it as before', async () => {
    const stderr = await validated(RULES)
    const [, match, rule, pass] =
      /a client that leaves out header:x-team is not limited: write ("match": \{.*?\}) here, and add the rule (\{.*\})\. If such clients may pass, add (\{.*\}) instead\n$/.exec(
        stderr,
      )!
    const matched = RULES.replace('limit_keys', `${match}\n        limit_keys`)
    const mended = `${matched}      - ${rule}\n`
    expect(await validated(mended)).toBe('')
    expect(await validated(`${matched}      - ${pass}\n`)).toBe('')
    // A rule that has its match already needs the else alone.
    expect(await validated(matched)).toContain(`is not limited: add the rule ${rule}. If such clients may pass`)
    const edge = await running({ fileName: 'bundle.yaml', bundle: 'bundle_version: 0\npolicies: []\n' })
    await edge.publish(withRules(mended))
    const ask = (address: string, times: number, ...fields: (readonly [string, string])[]) =>
      edge.decideTimes(times, { fields: [['X-Forwarded-For', address], ...fields] })
    expect(await ask('203.0.113.1', 3, ['X-Team', 'a'])).toEqual([200, 200, 200])
    expect(await ask('203.0.113.2', 1, ['X-Team', 'a'])).toEqual([429])
    const nameless = await ask('203.0.113.1', 12)
    expect(nameless.slice(0, 10)).toEqual(Array(10).fill(200))
    expect(nameless.at(-1)).toBe(429)
    expect(await ask('203.0.113.9', 1)).toEqual([200])
  })

  test('limits those whose token is no JWT', async () => {
    const rules = RULES.replace('"header:x-team"', '"jwt:sub"').replace('limit_keys', 'match: { bearer: "*" }\n        limit_keys')
    const [, rule] = /a client that leaves out jwt:sub is not limited: add the rule (\{.*\})\. /.exec(await validated(rules))!
    expect(await validated(`${rules}      - ${rule}\n`)).toBe('')
    const edge = await running({ fileName: 'bundle.yaml', bundle: withRules(`${rules}      - ${rule}\n`) })
    const statuses = await edge.decideTimes(12, {
      fields: [
        ['X-Forwarded-For', '203.0.113.1'],
        ['Authorization', 'Bearer no-jwt'],
      ],
    })
    expect([statuses[0], statuses.at(-1)]).toEqual([200, 429])
  })

  test('blocks those who would escape a budget', async () => {
    const rules = `      - name: team
        match: { "header:x-team": "*" }
        limit_keys: ["header:x-team"]
        algorithm: cost_budget
        algorithm_config: { budget: 5, period: 1d, cost: { header: x-cost, default: 1 } }
      - { name: requests, match: else, limit_keys: ["ip:address"], algorithm: token_bucket, algorithm_config: { rate: 1/hour } }
`
    const [, rule] = /escapes this budget: replace the rule "requests" by (\{.*\})\n$/.exec(await validated(rules))!
    const mended = rules.replace(/- \{ name: requests.*/, `- ${rule}`)
    expect(await validated(mended)).not.toContain('leaves out')
    const edge = await running({ fileName: 'bundle.yaml', bundle: withRules(mended) })
    expect((await edge.decide({ fields: [] })).status).toBe(403)
    expect((await edge.decide({ fields: [['X-Team', 'a']] })).status).toBe(200)
  })
})

test('validate names a size that is no size, and checks the bundle all the same', async () => {
  const file = await bundleFile()
  const { status, stdout, stderr } = await finished(['validate', file], { EDGE_STORE_SIZE: 'large' })
  expect({ status, stdout }).toEqual({ status: 1, stdout: `${file}: ok, version 1, 1 policy\n` })
  expect(stderr).toMatch(/^edge validate: EDGE_STORE_SIZE: expected .*\n$/)
})

async function bundleFile(): Promise<string> {
  const file = join(await scratchDirectory(), 'bundle.json')
  const rules = [
    windowRule('month', ['header:x-key'], { limit: 1000, period: '1mo' }),
    bucketRule('login', ['header:x-user'], 1, 1 / 3600),
    bucketRule('address', ['ip:address'], 100),
  ]
  await writeFile(file, JSON.stringify(bundle(1, policy('p', { rules }))))
  return file
}
