import { describe, expect, test } from 'vitest'
import { budgetRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { routing, saying } from '../../support/proxy/routed.ts'
import { until } from '../../support/until.ts'

const ON_STATUS = { on: [429, '5xx'], attempts: 2 }
const json = (body: string): RequestInit => ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body })

describe('money', () => {
  test('is reserved for the dearest model that the route may send, and settled by the one that was sent', async () => {
    const usage = JSON.stringify({ usage: { prompt_tokens: 1000, completion_tokens: 1000, total_tokens: 2000 }, choices: [] })
    const a = await HttpBackend.start(saying('no', 500))
    const b = await HttpBackend.start(saying(usage, 200, { 'Content-Type': 'application/json' }))
    const prices = { cheap: { input: 1, output: 1 }, dear: { input: 100, output: 100 }, '*': { input: 10, output: 10 } }
    const rule = budgetRule('r', ['ip:address'], { budget: 1, period: '1d', prices: 'list' })
    const route = { backends: [{ name: 'a', model: 'dear' }], fallback: [{ name: 'b', model: 'cheap' }], retry: ON_STATUS }
    const edge = await routing({ a, b }, [route], { policies: [policy('p', { rules: [rule] })], prices: { list: prices } })
    const ask = (tokens: number) =>
      fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, json(JSON.stringify({ model: 'any', max_tokens: tokens, messages: [] })))
    // 20,000 tokens of the dear model would cost 2, of all others 0.2 at most.
    expect((await ask(20_000)).status).toBe(429)
    const response = await ask(5000)
    expect([response.status, (await response.text()) === usage]).toEqual([200, true])
    // Settled by the dear model, 0.2 would be gone.
    await until(async () => (await ask(9900)).status === 200)
  })
})
