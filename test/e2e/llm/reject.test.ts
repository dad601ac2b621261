import { Agent, request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { answeringLlm } from '../../support/llm/scripted-llm.ts'
import type { Edge } from '../../support/service/edge.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

/** What a client is told when its budget cannot cover a request. */

interface Rejecting {
  readonly edge: Edge
  readonly clock: ManualClock
  /** Asks for so many tokens, by a prompt of nothing. */
  spend(tokens: number, extra?: object): Promise<Answer>
  readonly requests: { readonly length: number }
}

async function rejecting(config: object, backend?: { readonly port: number }): Promise<Rejecting> {
  const fake = await fakeLlm({ tokens: 400 })
  const clock = new ManualClock()
  const edge = await running({
    clock,
    bundle: bundle(1, policy('llm', { rules: [llmRule('budget', [], config)] })),
    env: proxyEnv(backend ?? fake),
  })
  const spend = (max_tokens: number, extra: object = {}) =>
    ask(edge.port, 'POST', CHAT, [['Content-Type', 'application/json']], JSON.stringify({ messages: [], max_tokens, ...extra }))
  return { edge, clock, spend, requests: fake.requests }
}

function error({ body }: Answer): Record<string, unknown> {
  return JSON.parse(body).error
}

describe('429 before the stream', () => {
  test('status, headers and a body in the shape that LLM clients read', async () => {
    const { spend, requests } = await rejecting({ tokens_per_minute: 600 })
    expect((await spend(400)).status).toBe(200)
    const answer = await spend(400, { stream: true })
    expect(answer.status).toBe(429)
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(answer.body)),
      'x-edge-reason': 'tpm_exceeded',
      'retry-after': '20',
      'ratelimit-limit': '600',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '20',
      ratelimit: '"llm";r=0;t=20',
    })
    expect(answer.headers['x-should-retry']).toBeUndefined()
    expect(error(answer)).toEqual({
      message: 'The per-minute token budget is exceeded: this request needs 400 tokens and 200 are available. Retry in 20 s.',
      type: 'rate_limit_error',
      code: 'tpm_exceeded',
    })
    expect(requests.length).toBe(1)
  })

  test('the day has a reason and a wait of its own', async () => {
    const { spend, clock } = await rejecting({ tokens_per_day: 600 })
    await spend(400)
    clock.advance(3_600_000)
    const answer = await spend(400)
    expect([answer.headers['x-edge-reason'], answer.headers['retry-after']]).toEqual(['tpd_exceeded', String(11 * 3600)])
    expect(error(answer)).toMatchObject({
      message: expect.stringContaining('needs 400 tokens and 200 are available'),
      code: 'tpd_exceeded',
    })
  })

  test('a request that the budget can never cover is told so, and not to come again', async () => {
    const { spend } = await rejecting({ tokens_per_minute: 600, burst_tokens: 300 })
    expect((await spend(200)).status).toBe(200)
    const answer = await spend(400)
    expect(answer.headers).toMatchObject({ 'x-should-retry': 'false', 'retry-after': '20', 'x-edge-reason': 'tpm_exceeded' })
    expect(error(answer)['message']).toBe(
      'The per-minute token budget can never cover this request: this request needs 400 tokens and 100 are available, of 300 at most. Ask for fewer tokens.',
    )
  })

  test('Retry-After is true: one second earlier it is too early, then it passes', async () => {
    const { spend, clock } = await rejecting({ tokens_per_minute: 600 })
    await spend(400)
    await spend(150)
    const wait = Number((await spend(300)).headers['retry-after'])
    expect(wait).toBe(25)
    clock.advance((wait - 1) * 1000)
    const early = await spend(300)
    expect([early.status, early.headers['retry-after']]).toEqual([429, '1'])
    clock.advance(1000)
    expect((await spend(300)).status).toBe(200)
  })

  test('what an answer gave back is there for the next request at once', async () => {
    const { spend } = await rejecting({ tokens_per_minute: 600 }, await fakeLlm({ tokens: 10 }))
    for (let i = 0; i < 10; i++) expect((await spend(500)).status).toBe(200)
    const answer = await spend(505)
    expect([answer.status, error(answer)['message']]).toEqual([429, expect.stringContaining('needs 505 tokens and 500 are available')])
  })

  test('a debt is paid off before anything else passes, and the wait says how long that takes', async () => {
    const backend = await answeringLlm(200, { usage: { prompt_tokens: 0, completion_tokens: 900, total_tokens: 900 } })
    const { spend, clock } = await rejecting({ tokens_per_minute: 600 }, backend)
    expect((await spend(10)).status).toBe(200)
    // 300 tokens short: they come back at 10 a second, and then the 100 that are asked for.
    const answer = await spend(100)
    expect([answer.headers['retry-after'], error(answer)['message']]).toEqual(['40', expect.stringContaining('and 0 are available')])
    clock.advance(39_000)
    expect((await spend(100)).headers['retry-after']).toBe('1')
    clock.advance(1000)
    expect((await spend(100)).status).toBe(200)
  })

  test('a client that rejects are sent to can go on on the same connection', async () => {
    const { edge, spend } = await rejecting({ tokens_per_minute: 600 })
    await spend(400)
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const ports = new Set<number>()
    for (let i = 0; i < 3; i++) {
      const status = await new Promise((resolve, reject) => {
        const req = request({ port: edge.port, host: '127.0.0.1', method: 'POST', path: CHAT, agent }, (res) => {
          ports.add(res.socket.localPort!)
          res.resume().on('end', () => resolve(res.statusCode))
        })
        req.on('error', reject).end(JSON.stringify({ messages: [], max_tokens: 400, stream: true }))
      })
      expect(status).toBe(429)
    }
    agent.destroy()
    expect(ports.size).toBe(1)
  })
})
