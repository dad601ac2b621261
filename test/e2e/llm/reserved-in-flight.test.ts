import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream } from '../../support/llm/llm-streams.ts'
import { type MoneyProxy, type MoneyProxyOptions, moneyProxy } from '../../support/llm/money-proxy.ts'
import { type ScriptedCall, type ScriptedLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import type { Answer, Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

/** A reject that only reservations in flight cause: the client waits for them, and not for the end of the window. */

/** May cost 2.09: a prompt token may be written to the cache, for 0.03. */
const BIG = { model: 'big', messages: HELLO, max_tokens: 100 }
/** From noon to midnight. */
const REST_OF_DAY_S = 43_200

async function inFlight(options: MoneyProxyOptions = {}): Promise<{ proxy: MoneyProxy; llm: ScriptedLlm }> {
  const llm = await scriptedLlm()
  return { llm, proxy: await moneyProxy(llm, { budget: 3, ...options }) }
}

/** A stream of which the first event has come. */
async function openStream(proxy: Pick<MoneyProxy, 'open'>, llm: ScriptedLlm, fields: Fields = []): Promise<ScriptedCall> {
  const client = proxy.open(CHAT, { ...BIG, stream: true }, fields)
  const call = await llm.next()
  call.begin()
  await call.write(chatChunk({ content: 'abcd' }))
  await client.untilText('abcd')
  return call
}

/** It costs 0.05 in the end. */
async function endStream(proxy: Pick<MoneyProxy, 'untilQuiet'>, call: ScriptedCall): Promise<void> {
  call.end('data: [DONE]\n\n')
  await proxy.untilQuiet()
}

async function waitOf(proxy: Pick<MoneyProxy, 'post'>, body: object = BIG, fields: Fields = []): Promise<number> {
  const { status, headers } = await proxy.post(CHAT, body, fields)
  expect(status).toBe(429)
  expect([headers['ratelimit-reset'], /;t=(\d+)$/.exec(headers['ratelimit']!)![1]]).toEqual([
    headers['retry-after'],
    headers['retry-after'],
  ])
  return Number(headers['retry-after'])
}

function messageOf({ body }: Answer): string {
  return JSON.parse(body).error.message
}

describe('while a stream has the money', () => {
  test('the client is told so, and to come again soon; then it passes', async () => {
    const { proxy, llm } = await inFlight()
    const call = await openStream(proxy, llm)
    const rejected = await proxy.post(CHAT, BIG)
    expect(rejected.status).toBe(429)
    expect(rejected.headers).toMatchObject({
      'x-edge-reason': 'budget_exceeded',
      'retry-after': '5',
      'ratelimit-limit': '300',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '5',
      ratelimit: '"money";r=0;t=5',
    })
    expect(rejected.headers['x-should-retry']).toBeUndefined()
    expect(messageOf(rejected)).toBe(
      'The budget is reserved by requests in flight, which give back what they do not use: this request may cost 2.09 and 0.91 is left. Retry in 5 s.',
    )
    await endStream(proxy, call)
    const passing = proxy.post(CHAT, BIG)
    ;(await llm.next()).answer(200, chatStream([]))
    expect((await passing).status).toBe(200)
  })

  test('the wait is how long such requests take, from 1 to 10 s', async () => {
    const { proxy, llm } = await inFlight({ budget: 2.5 })
    const waits: number[] = []
    for (const ms of [0, 2_200, 20_000, 600_000]) {
      const call = await openStream(proxy, llm)
      proxy.clock.advance(ms)
      await endStream(proxy, call)
      const next = await openStream(proxy, llm)
      waits.push(await waitOf(proxy))
      await endStream(proxy, next)
    }
    expect(waits).toEqual([1, 1, 3, 10])
  })

  test('the end of the window is waited for where it comes first', async () => {
    const { proxy, llm } = await inFlight()
    await openStream(proxy, llm)
    proxy.clock.advance((REST_OF_DAY_S - 2) * 1000)
    expect(await waitOf(proxy)).toBe(2)
  })

  test('what would not be enough, what another caller has, and what no budget covers change nothing', async () => {
    const { proxy, llm } = await inFlight({ budget: 4, limitKeys: ['header:x-team'] })
    const [red, blue] = [[['X-Team', 'red']] as const, [['X-Team', 'blue']] as const]
    await endStream(proxy, await openStream(proxy, llm, red))
    await endStream(proxy, await openStream(proxy, llm, blue))
    await openStream(proxy, llm, red)
    // 3.95 are not spent.
    expect(await waitOf(proxy, { ...BIG, max_tokens: 193 }, red)).toBeLessThanOrEqual(10)
    expect(await waitOf(proxy, { ...BIG, max_tokens: 194 }, red)).toBe(REST_OF_DAY_S)
    expect(await waitOf(proxy, { ...BIG, max_tokens: 194 }, blue)).toBe(REST_OF_DAY_S)
    const never = await proxy.post(CHAT, { ...BIG, max_tokens: 1000 }, red)
    expect([never.headers['x-should-retry'], messageOf(never)]).toEqual(['false', expect.stringContaining('can never cover')])
  })

  test('a window does not wait for what was reserved in the one before it', async () => {
    const { proxy, llm } = await inFlight({ budget: 2.1, config: { period: '1h' } })
    await openStream(proxy, llm)
    proxy.clock.advance(3_600_000)
    const spent = proxy.post(CHAT, BIG)
    ;(await llm.next()).answer(200, { usage: { prompt_tokens: 3, completion_tokens: 100 } })
    expect((await spent).status).toBe(200)
    await until(async () => (await proxy.edge.metric('edge_proxy_open_requests')) === 1)
    expect(await waitOf(proxy)).toBe(3600)
  })
})

describe('what is spent', () => {
  test('is told with the end of the window', async () => {
    const { proxy, llm } = await inFlight()
    const spent = proxy.post(CHAT, BIG)
    ;(await llm.next()).answer(200, { usage: { prompt_tokens: 3, completion_tokens: 100 } })
    expect((await spent).status).toBe(200)
    await proxy.untilQuiet()
    expect(await waitOf(proxy)).toBe(REST_OF_DAY_S)
    expect(messageOf(await proxy.post(CHAT, BIG))).toBe(
      `The budget is exceeded: this request may cost 2.09 and 0.97 is left. Retry in ${REST_OF_DAY_S} s, at 2026-01-16T00:00:00Z.`,
    )
  })
})

describe('in decision_service', () => {
  test('the wait is the end of the window, whoever settles', async () => {
    const rules = [llmRule('budget', [], { tokens_per_day: 1500 })]
    const edge = await running({ clock: new ManualClock(), bundle: bundle(1, policy('llm', { rules })) })
    const fields = [['X-Edge-Settle', '1']] as const
    expect((await edge.decide({ fields })).headers['x-edge-reservation']).toBeDefined()
    expect((await edge.decide({ fields })).headers).toMatchObject({
      'x-edge-reason': 'tpd_exceeded',
      'retry-after': `${REST_OF_DAY_S}`,
      'ratelimit-reset': `${REST_OF_DAY_S}`,
    })
  })
})

describe('a day of tokens', () => {
  test('is awaited in the same way, beside the minute', async () => {
    const llm = await scriptedLlm()
    const proxy = await llmProxy(llm, { minuteTokens: 600, dayTokens: 150, config: { max_completion_tokens: 100 } })
    const call = await openStream(proxy, llm)
    const rejected = await proxy.post(CHAT, BIG)
    expect(rejected.headers).toMatchObject({ 'x-edge-reason': 'tpd_exceeded', 'retry-after': '5', 'ratelimit-reset': '5' })
    expect(messageOf(rejected)).toBe(
      'The daily token budget is reserved by requests in flight, which give back what they do not use: this request needs 103 tokens and 47 are available. Retry in 5 s.',
    )
    await endStream(proxy, call)
    expect((await proxy.spent()).day).toBe(4)
  })

  test('where the minute rejects too, the longer of both waits is told', async () => {
    const llm = await scriptedLlm()
    const proxy = await llmProxy(llm, { minuteTokens: 120, dayTokens: 120, config: { max_completion_tokens: 100 } })
    await openStream(proxy, llm)
    const rejected = await proxy.post(CHAT, BIG)
    // 86 tokens are missing, at two a second.
    expect(rejected.headers).toMatchObject({ 'x-edge-reason': 'tpm_exceeded', 'retry-after': '43' })
    expect(messageOf(rejected)).toContain('The per-minute token budget is exceeded')
  })
})
