import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatStream } from '../../support/llm/llm-streams.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { BODY, logged, paid, shadowing, TIGHT, WORDS } from '../../support/llm/shadowing.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

/** A shadow policy never changes a response: no reject, no 400, no header, no byte of a stream. */

describe('a stream under a shadow policy', () => {
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
