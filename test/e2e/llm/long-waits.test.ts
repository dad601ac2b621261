import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy, windowRule } from '../../support/bundles/bundles.ts'
import { fakeLlm, MESSAGES, proxyEnv } from '../../support/llm/llm-proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

/** SDKs sleep for as long as Retry-After says, in silence. Where that is hours, they are told not to. */

const MESSAGE = { model: 'm', max_tokens: 100, messages: [{ role: 'user' as const, content: 'hello there!' }] }

async function spentDay(): Promise<Edge> {
  const fake = await fakeLlm({ tokens: 97 })
  const rules = [llmRule('day', [], { tokens_per_day: 150 })]
  const edge = await running({ clock: new ManualClock(), bundle: bundle(1, policy('p', { rules })), env: proxyEnv(fake) })
  expect((await ask(edge.port, 'POST', MESSAGES, [['Content-Type', 'application/json']], JSON.stringify(MESSAGE))).status).toBe(200)
  return edge
}

describe('a day that is used up', () => {
  // A client that slept until midnight would not fail before this test does.
  test("Anthropic's client raises its error at once, whatever it would retry", async () => {
    const edge = await spentDay()
    const sdk = new Anthropic({ baseURL: `http://127.0.0.1:${edge.port}`, apiKey: 'k', maxRetries: 5 })
    const failure = await sdk.messages.create(MESSAGE).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Anthropic.RateLimitError)
    expect(Number((failure as InstanceType<typeof Anthropic.APIError>).headers!.get('retry-after'))).toBeGreaterThan(120)
  })

  test("so does OpenAI's", async () => {
    const edge = await spentDay()
    const sdk = new OpenAI({ baseURL: `http://127.0.0.1:${edge.port}/v1`, apiKey: 'k', maxRetries: 5 })
    const failure = await sdk.chat.completions.create(MESSAGE).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(OpenAI.RateLimitError)
  })
})

test.each([
  [0, 120, undefined],
  [1000, 119, undefined],
  [-1000, 121, 'false'],
])('the clients of both modes are told where the wait is above two minutes (%d ms later: %d s)', async (offsetMs, seconds, told) => {
  const rule = windowRule('r', [], { limit: 1, period: '1h' })
  const fake = await fakeLlm({ tokens: 1 })
  const texts = bundle(1, policy('p', { rules: [rule] }))
  const clocks = [new ManualClock(), new ManualClock()]
  const proxy = await running({ clock: clocks[0]!, bundle: texts, env: proxyEnv(fake) })
  const decision = await running({ clock: clocks[1]!, bundle: texts })
  // The clocks begin at a full hour.
  for (const clock of clocks) clock.advance(3_600_000 - 120_000 + offsetMs)
  const asks = [() => ask(proxy.port, 'GET', '/x'), () => decision.decide()]
  for (const each of asks) {
    await each()
    const { status, headers } = await each()
    expect([status, headers['retry-after'], headers['x-should-retry']]).toEqual([429, String(seconds), told])
  }
})
