import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, adminPortOf, askAdmin } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { budgetRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatChunk } from '../../support/llm/llm-streams.ts'
import { PRICES } from '../../support/llm/money-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import type { Cli } from '../../support/service/cli.ts'
import { KeptCounters } from '../../support/state/kept-counters.ts'
import { until } from '../../support/until.ts'

const MAX = 60_000
const BUDGET = 1_000_000
const ASKED = { model: 'big', stream: true, messages: HELLO, max_tokens: MAX }
const period = { period: '1mo' }
const RULES = [
  llmRule('whole', [], { tokens_per_day: BUDGET, tokens_per_minute: 2 * BUDGET }),
  llmRule('growing', [], { tokens_per_day: BUDGET, reserve: { first: 100, step: 100 } }),
  llmRule('keep', [], { tokens_per_day: BUDGET, without_usage: 'keep' }),
  llmRule('spare', ['header:x-spare'], { tokens_per_day: BUDGET }),
  budgetRule('money', [], { budget: 9_000_000, ...period, prices: 'main' }),
]
const BUNDLE = { ...bundle(1, policy('llm', { rules: RULES })), prices: PRICES }

async function used(edge: Cli, rule: string): Promise<number> {
  const { counters } = (await askAdmin(adminPortOf(edge), 'GET', `counters?policy=llm&rule=${rule}`)).json
  const { limit, level } = counters.at(-1)
  return limit - level
}

/** An override is in the file before its response, with all counters. */
async function save(edge: Cli, value: string): Promise<void> {
  const body = { policy: 'llm', rule: 'spare', values: { 'header:x-spare': value }, block: true }
  expect(await new Operator(adminPortOf(edge)).override(body)).toMatchObject({ durable: true })
}

describe('a crash in the middle of requests', () => {
  test('gives back what they had reserved, except for what they had been sent, and once', async (t) => {
    const backend = await scriptedLlm()
    const kept = await KeptCounters.of(t, BUNDLE)
    const env = { ...ADMIN_ENV, ...proxyEnv(backend), EDGE_WORKERS: '2' }
    const first = await kept.serve(env)
    const STREAMS = 10
    const clients = Array.from({ length: STREAMS }, () => new StreamClient(first.port, CHAT, JSON.stringify(ASKED)))
    await until(() => backend.calls.length === STREAMS)
    for (const call of backend.calls) {
      call.begin()
      await call.write(chatChunk({ content: 'abcd' }).repeat(150))
    }
    for (const client of clients) await client.untilText('abcd')
    await until(async () => (await used(first, 'growing')) >= STREAMS * (HELLO_TOKENS + 200))
    const reserved = STREAMS * (HELLO_TOKENS + MAX)
    expect(await used(first, 'whole')).toBe(reserved)
    await save(first, 'first')
    await first.stop('SIGKILL')

    const seen = STREAMS * (HELLO_TOKENS + 150)
    const check = async (edge: Cli): Promise<void> => {
      expect([await used(edge, 'whole'), await used(edge, 'growing'), await used(edge, 'keep')]).toEqual([seen, seen, reserved])
      // Hundredths: an input token costs one, an output token two.
      expect(await used(edge, 'money')).toBe(STREAMS * (HELLO_TOKENS + 2 * 150))
    }
    const second = await kept.serve(env)
    expect(second.logged('reservations_given_back')).toMatchObject([{ counters: 4, kept_tokens: expect.any(Number) }])
    await check(second)
    await save(second, 'second')
    await second.stop('SIGKILL')

    // What was given back is not given back again.
    const third = await kept.serve(env)
    expect(third.logged('reservations_given_back')).toEqual([])
    await check(third)
  })
})
