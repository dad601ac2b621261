import { beforeAll, describe, expect, test } from 'vitest'
import { budgetRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { CHAT, fakeLlm, MESSAGES, proxyEnv, RESPONSES } from '../support/llm/llm-proxy.ts'
import { StreamClient } from '../support/llm/stream-client.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { codeBlocks, readText } from './markdown.ts'

/** The APIs in the order of the page, with a prompt of two tokens. */
const APIS: readonly (readonly [name: string, path: string, body: object])[] = [
  ['chat', CHAT, { stream: true, messages: [{ role: 'user', content: 'hello' }] }],
  ['Responses', RESPONSES, { stream: true, input: 'hello' }],
  ['Anthropic', MESSAGES, { stream: true, messages: [{ role: 'user', content: 'hello' }], max_tokens: 500 }],
  ['Gemini', '/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse', { contents: [{ role: 'user', parts: [{ text: 'hello' }] }] }],
]

const RESERVE = { first: 100, step: 100 }
const PRICES = { list: { '*': { input: 10_000, output: 10_000 } } }

/** The rules that cut a stream, each in both ways. Each API has a budget of its own. */
const CAUSES = {
  completion_tokens_exceeded: (streaming: object) =>
    llmRule('r', ['header:x-api'], { tokens_per_day: 9999, max_completion_tokens: 9, streaming: { buffer_tokens: 1, ...streaming } }),
  tpd_exceeded: (streaming: object) => llmRule('r', ['header:x-api'], { tokens_per_day: 120, reserve: RESERVE, streaming }),
  budget_exceeded: (streaming: object) =>
    budgetRule('r', ['header:x-api'], { budget: 1.2, period: '1d', prices: 'list', reserve: RESERVE, streaming }),
}
const CLOSINGS = ['graceful_close', 'error_chunk'] as const

describe('docs/llm-streams.md shows how streams end', () => {
  const suite = thisSuite()
  /** What each API sends last, by closing and cause. */
  const endings = new Map<string, string>()

  beforeAll(async () => {
    const backend = await fakeLlm({ tokens: 500 }, suite)
    for (const closing of CLOSINGS) {
      for (const [cause, ruleOf] of Object.entries(CAUSES)) {
        const rules = [ruleOf({ on_limit_exceeded: closing })]
        const text = { ...bundle(1, policy('p', { rules })), prices: PRICES }
        const edge = await running({ clock: new ManualClock(), bundle: text, env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend) } }, suite)
        for (const [api, path, body] of APIS) {
          const client = await new StreamClient(edge.port, path, JSON.stringify(body), [['x-api', api]]).untilClosed()
          endings.set(`${api} ${closing} ${cause}`, client.text)
        }
      }
    }
  })
  /** The examples of the section, in the order of the page. */
  const examples = (): string[] => {
    const [, section = ''] = /^## How it ends$(.*?)^## /ms.exec(readText('docs/llm-streams.md')) ?? []
    return codeBlocks(section, '')
  }
  const SHOWN = [
    ...APIS.map(([api]) => `${api} graceful_close completion_tokens_exceeded`),
    ...APIS.map(([api]) => `${api} error_chunk completion_tokens_exceeded`),
    ...APIS.map(([api]) => `${api} error_chunk tpd_exceeded`),
  ]

  test('as many examples as there are endings', () => {
    expect(examples()).toHaveLength(SHOWN.length)
  })

  test.each(SHOWN.map((name, i) => [name, i] as const))('%s', (name, i) => {
    const sent = endings.get(name)!
    const example = examples()[i]!
    expect(sent.slice(-example.length - 1)).toBe(`${example}\n`)
  })

  test.each(APIS)('%s: a budget of money differs from a daily one in code and message alone', (api) => {
    const ofDay = examples()[SHOWN.indexOf(`${api} error_chunk tpd_exceeded`)]!
    const example = ofDay.replace('the daily token budget is exceeded', 'the budget is exceeded').replace('tpd_exceeded', 'budget_exceeded')
    expect(endings.get(`${api} error_chunk budget_exceeded`)!.slice(-example.length - 1)).toBe(`${example}\n`)
  })

  test.each(APIS)('%s: a budget that is used up closes gracefully in the same form', (api) => {
    const formOf = (cause: string): string => {
      const events = endings.get(`${api} graceful_close ${cause}`)!.split('\n\n')
      const count = examples()[APIS.findIndex(([name]) => name === api)]!.split('\n\n').length
      return events
        .slice(-count - 1)
        .join('\n\n')
        .replaceAll(/\d+/g, '0')
        .replaceAll(/"text":"[^"]*"/g, '"text":"…"')
    }
    expect(formOf('tpd_exceeded')).toBe(formOf('completion_tokens_exceeded'))
    expect(formOf('budget_exceeded')).toBe(formOf('completion_tokens_exceeded'))
  })
})
