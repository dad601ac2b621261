import { expect, onTestFinished, test, vi } from 'vitest'
import { parseBundle } from '../../src/policy/parse.ts'
import { ADMIN_ENV, ADMIN_TOKEN } from '../support/admin/admin-client.ts'
import { CHAT, fakeLlm, proxyEnv } from '../support/llm/llm-proxy.ts'
import { command } from '../support/service/command.ts'
import { type Answer, ask, type Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'
import { codeBlocks, readText } from './markdown.ts'
import { night } from './readme.ts'

const README = readText('README.md')
const [POLICY, BUDGET] = codeBlocks(README, 'yaml') as [string, string]

test('the README has fewer than 1,000 words, code included', () => {
  expect(README.trim().split(/\s+/).length).toBeLessThan(1000)
})

test('the README begins with the two commands', () => {
  const commands = README.split('```')[1]!
  expect(commands).toMatch(/^npm ci && npm start\b/m)
  expect(commands).toMatch(/^npm ci && npm test\b/m)
})

test("`npm start` loads the README's policy", () => {
  expect(policiesOf(readText('examples/quickstart.json'), 'json')[0]).toEqual(policiesOf(POLICY, 'yaml')[0])
})

test("under the README's policy, the sixth request gets the README's 429", async () => {
  const edge = await running({ bundle: POLICY, fileName: 'limits.yaml', clock: new ManualClock() })
  const fields = [...README.matchAll(/-H '([^:']+): ([^']+)'/g)].map((match) => [match[1]!, match[2]!] as const)
  const answers: Answer[] = []
  for (let i = 0; i < 6; i++) answers.push(await ask(edge.port, 'POST', '/v1/decision', fields))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429])
  const [, ...lines] = codeBlocks(README, 'http')[0]!.trim().split('\n')
  const promised = lines.map((line) => line.split(': ') as [string, string])
  for (const [name, value] of promised) expect(answers[5]!.headers[name.toLowerCase()], name).toBe(value)
})

test("the README's commands for 3 a.m. find the rule, and lift the limit, with the settings that it gives them", async () => {
  const { settings, edge: program, commands } = night(README)
  expect(program).toBe((JSON.parse(readText('package.json')) as { bin: { edge: string } }).bin.edge)
  expect(settings).toEqual({ EDGE_ADMIN_HOST: '127.0.0.1', EDGE_ADMIN_PORT: '9090', EDGE_ADMIN_TOKEN: '$(openssl rand -hex 32)' })
  const clock = new ManualClock()
  const edge = await running({ bundle: POLICY, fileName: 'limits.yaml', clock, env: ADMIN_ENV })
  const alice = { uri: '/api/hello', fields: [['X-Api-Key', 'alice']] } as const
  expect(await edge.decideTimes(6, alice)).toEqual([200, 200, 200, 200, 200, 429])
  const env = { ...settings, EDGE_ADMIN_PORT: String(edge.adminPort), EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  onTestFinished(() => void vi.unstubAllEnvs())
  const printed: string[] = []
  for (const line of commands) {
    const [, ...words] = line.match(/'[^']*'|\S+/g)!.map((word) => word.replaceAll("'", ''))
    const { status, stdout } = await command(...words)
    expect(status, line).toBe(0)
    printed.push(stdout)
  }
  expect(printed[1]).toContain('Rule per-key of policy api-callers rejects it.')
  clock.advance(1000)
  expect(await edge.decideTimes(12, alice)).toEqual(Array<number>(12).fill(200))
})

test("the README's token budget is twelve lines, rejects what it cannot cover and cuts a long stream", async () => {
  expect(BUDGET.trim().split('\n')).toHaveLength(12)
  const backend = await fakeLlm({ tokens: 800 })
  const edge = await running({ bundle: BUDGET, fileName: 'budget.yaml', clock: new ManualClock(), env: proxyEnv(backend) })
  const send = (key: string, extra: object = {}) => ask(edge.port, 'POST', CHAT, bearer(key), JSON.stringify({ messages: [], ...extra }))

  const whole: number[] = []
  for (let i = 0; i < 13; i++) whole.push((await send('team-a', { max_tokens: 500 })).status)
  expect(whole).toEqual([...Array<number>(12).fill(200), 429])

  const stream = await send('team-b', { stream: true })
  expect([stream.status, /"finish_reason":"(\w+)"/.exec(stream.body)?.[1]]).toEqual([200, 'length'])
})

function policiesOf(text: string, format: 'json' | 'yaml'): readonly unknown[] {
  const parsed = parseBundle(text, format)
  if (!parsed.ok) throw new Error('not a bundle')
  return parsed.bundle.policies
}

function bearer(key: string): Fields {
  return [
    ['Content-Type', 'application/json'],
    ['Authorization', `Bearer ${key}`],
  ]
}
