import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatStream } from '../../support/llm/llm-streams.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

/** A shadow policy never changes a response: no reject, no 400, no header, no byte of a stream. */

const ASKED = { stream: true, messages: HELLO }
const WORDS = Array.from({ length: 50 }, () => 'abcd')
const BODY = JSON.stringify(ASKED)
const TIGHT = { max_completion_tokens: 10, streaming: { buffer_tokens: 1 } }

async function shadowing(backend: { readonly port: number }, config: object = {}, env: Record<string, string> = {}): Promise<Edge> {
  const rules = [llmRule('tried', [], { tokens_per_minute: 100_000, tokens_per_day: 50_000, ...TIGHT, ...config })]
  const trial = policy('trial', { mode: 'shadow', rules })
  return running({ clock: new ManualClock(), bundle: bundle(1, trial), env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend), ...env } })
}

/** What the shadow's counters have paid, by the metrics: nobody is told of it otherwise. */
async function paid(edge: Edge): Promise<number[]> {
  const names = ['reserved', 'given_back', 'overdrawn', 'used']
  const values = await Promise.all(names.map((name) => edge.metric(`edge_llm_tokens_${name}_total{policy="trial",rule="tried"}`)))
  const [reserved, givenBack, overdrawn, used] = values as [number, number, number, number]
  expect(reserved - givenBack + overdrawn).toBe(used)
  return values
}

function logged(edge: Edge, name: string): Record<string, unknown>[] {
  return edge.log.filter(({ event }) => event === name)
}

describe('a stream under a shadow policy', () => {
  test('passes byte for byte; would_truncate is logged with the token count, once, and counted', async () => {
    const text = chatStream(WORDS)
    const edge = await shadowing(await streamingLlm(text, 11))
    const client = await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect([client.outcome, client.text]).toEqual(['whole', text])
    expect(logged(edge, 'would_truncate')).toMatchObject([
      { policy: 'trial', rule: 'tried', completion_tokens: 11, max_completion_tokens: 10 },
    ])
    expect(logged(edge, 'truncated')).toEqual([])
    expect(await edge.metric('edge_llm_would_truncate_total{policy="trial",rule="tried"}')).toBe(1)
    expect(await edge.metric('edge_llm_truncations_total{policy="trial",rule="tried"}')).toBe(0)
    // It was not cut, so it is charged for all that it brought.
    expect(await paid(edge)).toEqual([HELLO_TOKENS + 10, 0, 40, HELLO_TOKENS + 50])
  })

  test('one within its bound is not logged', async () => {
    const edge = await shadowing(await streamingLlm(chatStream(['abcd'])))
    await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect(logged(edge, 'would_truncate')).toEqual([])
    expect(await paid(edge)).toEqual([HELLO_TOKENS + 10, 9, 0, HELLO_TOKENS + 1])
  })

  test.for([
    ['enforce_mid_stream: false', { enforce_mid_stream: false }, HELLO_TOKENS + 50],
    ['enabled: false', { enabled: false }, HELLO_TOKENS + 10],
  ] as const)('with %s nothing would be cut, so nothing is logged', async ([, streaming, used]) => {
    const text = chatStream(WORDS)
    const edge = await shadowing(await streamingLlm(text), { streaming: { buffer_tokens: 1, ...streaming } })
    const client = await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect(client.text).toBe(text)
    expect(logged(edge, 'would_truncate')).toEqual([])
    expect((await paid(edge)).at(-1)).toBe(used)
  })

  test('the backend sees what the client sent, and the client what the backend sent', async () => {
    const backend = await scriptedLlm((call) => {
      const bytes = gzipSync(chatStream(WORDS))
      call.begin({ 'Content-Encoding': 'gzip', 'Content-Length': bytes.length })
      call.end(bytes)
    })
    const edge = await shadowing(backend)
    const client = await new StreamClient(edge.port, CHAT, BODY, [['Accept-Encoding', 'gzip, br']]).untilClosed()
    expect(backend.calls[0]!.req.headers['accept-encoding']).toBe('gzip, br')
    expect([client.headers['content-encoding'], client.bytes.equals(gzipSync(chatStream(WORDS)))]).toEqual(['gzip', true])
    expect(client.headers['content-length']).toBe(String(client.bytes.length))
    // Counted all the same.
    await expect.poll(async () => (await paid(edge)).at(-1)).toBe(HELLO_TOKENS + 50)
    expect(logged(edge, 'would_truncate')).toMatchObject([{ completion_tokens: 11 }])
  })

  test('a client that goes away pays on the shadow too', async () => {
    const backend = await scriptedLlm()
    const edge = await shadowing(backend)
    const client = new StreamClient(edge.port, CHAT, BODY)
    const call = await backend.next()
    call.begin()
    await call.write(chatStream(['abcd', 'efgh']).split('data: [DONE]')[0]!)
    await client.untilText('efgh')
    client.abort()
    await call.writeUntilAborted(': keep-alive\n\n')
    await expect.poll(async () => paid(edge)).toEqual([HELLO_TOKENS + 10, 8, 0, HELLO_TOKENS + 2])
  })
})

describe('a request under a shadow policy', () => {
  const answer = (edge: Edge, body = BODY, fields: Fields = []) => ask(edge.port, 'POST', CHAT, fields, body)

  test('that would be rejected passes without a header, is counted, and takes nothing', async () => {
    const edge = await shadowing(await fakeLlm(), { tokens_per_minute: 5 })
    for (let i = 0; i < 3; i++) {
      const { status, headers } = await answer(edge, JSON.stringify({ messages: HELLO }))
      expect(status).toBe(200)
      expect(Object.keys(headers).filter((name) => /ratelimit|retry|x-edge/.test(name))).toEqual([])
    }
    expect(await edge.metric('edge_would_reject_total{policy="trial",rule="tried",reason="tpm_exceeded"}')).toBe(3)
    expect(await paid(edge)).toEqual([0, 0, 0, 0])
  })

  test('whose body is larger than what is read for an estimate passes', async () => {
    const backend = await answeringLlm(200, { ok: true })
    const edge = await shadowing(backend, {}, { EDGE_MAX_BODY_BYTES: '1k' })
    const { status } = await answer(edge, JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(2000) }] }))
    expect(status).toBe(200)
    expect(backend.calls.length).toBe(1)
  })

  test('whose body cannot be read, or has a name that is read twice, passes', async () => {
    const backend = await answeringLlm(200, { ok: true })
    const edge = await shadowing(backend)
    const bodies = ['{"messages":[],"n":1,"n":2}', `{"messages":${'['.repeat(1000)}${']'.repeat(1000)}}`]
    for (const body of bodies) expect((await answer(edge, body)).status).toBe(200)
    expect(backend.calls.map(({ body }) => body)).toEqual(bodies)
  })

  test('whose body is not what Content-Encoding says passes', async () => {
    const backend = await answeringLlm(200, { ok: true })
    const edge = await shadowing(backend)
    const { status } = await answer(edge, BODY, [['Content-Encoding', 'gzip']])
    expect(status).toBe(200)
    expect(backend.calls[0]!.body).toBe(BODY)
  })
})

describe('a shadow policy beside an enforcing one', () => {
  const both = (enforced: object, tried: object) =>
    bundle(
      1,
      policy('live', { rules: [llmRule('held', [], { tokens_per_minute: 100_000, ...enforced })] }),
      policy('trial', { mode: 'shadow', rules: [llmRule('tried', [], { tokens_per_minute: 100_000, ...tried })] }),
    )

  test('only the enforcing one adds usage and cuts; each is settled on its own', async () => {
    const edge = await running({
      clock: new ManualClock(),
      bundle: both({ max_completion_tokens: 20, streaming: { buffer_tokens: 1, include_partial_usage: false } }, TIGHT),
      env: proxyEnv(await streamingLlm(chatStream(WORDS))),
    })
    const client = await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect(client.text).not.toContain('usage')
    expect(client.text).toContain('"finish_reason":"length"')
    expect(logged(edge, 'would_truncate')).toMatchObject([{ rule: 'tried', completion_tokens: 11 }])
    expect(logged(edge, 'truncated')).toMatchObject([{ rule: 'held', completion_tokens: 21 }])
    expect(await edge.metric('edge_llm_tokens_used_total{policy="live",rule="held"}')).toBe(HELLO_TOKENS + 21)
    expect(await paid(edge)).toEqual([HELLO_TOKENS + 10, 0, 11, HELLO_TOKENS + 21])
  })

  test('a request that enforcement rejects takes nothing from the shadow', async () => {
    const edge = await running({
      clock: new ManualClock(),
      bundle: both({ tokens_per_minute: 5 }, TIGHT),
      env: proxyEnv(await fakeLlm()),
    })
    expect((await ask(edge.port, 'POST', CHAT, [], BODY)).status).toBe(429)
    expect(await paid(edge)).toEqual([0, 0, 0, 0])
  })
})
