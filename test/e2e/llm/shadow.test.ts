import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatStream } from '../../support/llm/llm-streams.ts'
import { scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { BODY, logged, paid, shadowing, TIGHT, WORDS } from '../../support/llm/shadowing.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

/** A shadow policy never changes a response: no reject, no 400, no header, no byte of a stream. */

describe('a stream under a shadow policy', () => {
  test('passes byte for byte; would_truncate is logged with the token count, once, and counted', async () => {
    const text = chatStream(WORDS)
    const edge = await shadowing(await streamingLlm(text, 11))
    const client = await new StreamClient(edge.port, CHAT, BODY).untilClosed()
    expect([client.outcome, client.text]).toEqual(['whole', text])
    expect(await untilLogged(edge, 'would_truncate')).toMatchObject([
      { policy: 'trial', rule: 'tried', completion_tokens: 11, max_completion_tokens: 10 },
    ])
    expect(logged(edge, 'truncated')).toEqual([])
    expect(await edge.metric('edge_llm_would_truncate_total{policy="trial",rule="tried",cause="max_completion_tokens"}')).toBe(1)
    expect(await edge.metric('edge_llm_truncations_total{policy="trial",rule="tried",cause="max_completion_tokens"}')).toBe(0)
    // It was not cut, so it is charged for all that it brought.
    expect(await paid(edge)).toEqual([HELLO_TOKENS + 10, 0, 40, HELLO_TOKENS + 50])
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
    expect(await untilLogged(edge, 'would_truncate')).toMatchObject([{ completion_tokens: 11 }])
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
    expect(await untilLogged(edge, 'would_truncate')).toMatchObject([{ rule: 'tried', completion_tokens: 11 }])
    expect(await untilLogged(edge, 'truncated')).toMatchObject([{ rule: 'held', completion_tokens: 21 }])
    expect(await edge.metric('edge_llm_tokens_used_total{policy="live",rule="held"}')).toBe(HELLO_TOKENS + 21)
    expect(await paid(edge)).toEqual([HELLO_TOKENS + 10, 0, 11, HELLO_TOKENS + 21])
  })
})
