import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseBundle } from '../../../src/policy/parse.ts'
import { budgetRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { warnings } from '../../support/bundles/warning-bundle.ts'
import { CHAT, fakeLlm, HELLO } from '../../support/llm/llm-proxy.ts'
import { answeringLlm } from '../../support/llm/scripted-llm.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'
import { usageProxy } from '../../support/usage/usage-proxy.ts'

const RULE = llmRule('tokens', ['header:x-key'], { tokens_per_day: 101, warn_at_percent: [80, 50] })
const LIMITS = { ...bundle(1, policy('llm', { rules: [RULE] })), usage: { labels: ['header:x-team', 'bearer'] } }
const FIELDS = [
  ['X-Key', 'k'],
  ['X-Team', 'red'],
  ['Authorization', 'Bearer sk-secret'],
] as const

describe('warn_at_percent of tokens_per_day', () => {
  test('warns once a day and caller when a share is reached, and says whom to write to', async () => {
    const proxy = await usageProxy(await fakeLlm({ tokens: 47 }), { bundle: LIMITS })
    const ask = async (tokens: number): Promise<void> => {
      await proxy.post(CHAT, { model: 'm', messages: HELLO, max_tokens: tokens }, FIELDS)
      await proxy.untilQuiet()
      proxy.clock.advance(1000)
    }
    await ask(47) // 50 of 101 tokens
    expect(warnings(proxy.edge)).toEqual([])
    await ask(1)
    await ask(1)
    expect(warnings(proxy.edge)).toMatchObject([
      { policy: 'llm', rule: 'tokens', percent: 50, labels: { 'header:x-team': 'red', bearer: expect.stringMatching(/^[0-9a-f]{16}$/) } },
    ])
    expect(JSON.stringify(proxy.edge.log)).not.toContain('sk-secret')
    expect((await proxy.metrics()).value('edge_budget_warnings_total{policy="llm",rule="tokens",percent="50"}')).toBe(1)
  })

  test('a restart with a state file repeats no warning, and gives the next one', async () => {
    const [env, clock] = [{ EDGE_STATE_FILE: join(await scratchDirectory(), 'state') }, new ManualClock()]
    const warned = async (tokens: number) => {
      const proxy = await usageProxy(await fakeLlm({ tokens }), { bundle: LIMITS, env, clock })
      await proxy.post(CHAT, { model: 'm', messages: HELLO, max_tokens: tokens }, FIELDS)
      await proxy.untilQuiet()
      await proxy.edge.stop()
      return warnings(proxy.edge)
    }
    expect(await warned(57)).toMatchObject([{ percent: 50 }]) // 60 of 101 tokens
    expect(await warned(1)).toEqual([])
    expect(await warned(27)).toMatchObject([{ percent: 80, labels: { 'header:x-team': 'red' } }])
  })

  test('needs a day, and no domain', () => {
    const problems = (limits: object): string[] => {
      const read = parseBundle(JSON.stringify(limits))
      return read.ok ? [] : read.problems.map(({ path, message }) => `${path}: ${message}`)
    }
    expect(problems(bundle(1, policy('p', { rules: [llmRule('r', [], { tokens_per_minute: 9000, warn_at_percent: [80] })] })))).toEqual([
      'policies[0].spec.rules[0].algorithm_config.warn_at_percent: expected tokens_per_day beside it: percentages are of the day, and a minute refills all the time, got a list',
    ])
    const calls = policy('p', {
      selector: { domain: 'd' },
      rules: [llmRule('r', ['descriptor:u'], { tokens_per_day: 9, warn_at_percent: [80] })],
    })
    expect(problems(bundle(1, calls))[0]).toContain('warn_at_percent: expected none in a policy with a domain: nobody is warned of calls')
  })
})

test('warnings of money carry labels too, and where a gateway asks, which has no usage log', async () => {
  const rule = budgetRule('money', ['header:x-key'], { budget: 10, cost: { header: 'x-cost', default: 9 }, warn_at_percent: [80] })
  const edge = await running({ bundle: { ...bundle(1, policy('p', { rules: [rule] })), usage: { labels: ['header:x-team', 'bearer'] } } })
  await edge.decide({ uri: '/', fields: FIELDS.map(([name, value]) => [name, value]) })
  expect(warnings(edge)).toMatchObject([
    { rule: 'money', percent: 80, labels: { 'header:x-team': 'red', bearer: expect.stringMatching(/^[0-9a-f]{16}$/) } },
  ])
})

test('a chat gets a message about a budget that is nearly spent, unsigned and without requests that were rejected', async () => {
  const chat = await answeringLlm(200, 'ok')
  const env = { EDGE_EVENTS_URL: `http://127.0.0.1:${chat.port}/services/T0/B0/secret`, EDGE_EVENTS_FORMAT: 'slack' }
  const proxy = await usageProxy(await fakeLlm({ tokens: 80 }), { bundle: LIMITS, env })
  await proxy.post(CHAT, { model: 'm', messages: HELLO, max_tokens: 80 }, FIELDS)
  expect((await proxy.post(CHAT, { model: 'm', messages: HELLO, max_tokens: 80 }, FIELDS)).status).toBe(429)
  await until(() => chat.calls.length > 0)
  const { body, req } = chat.calls[0]!
  const { text } = JSON.parse(body) as { text: string }
  expect(Object.keys(JSON.parse(body) as object)).toEqual(['text'])
  expect(text.split('\n')).toHaveLength(1)
  expect(text).toContain('header:x-team red')
  expect(req.headers['content-type']).toBe('application/json')
  expect(req.headers).not.toHaveProperty('webhook-signature')
})
