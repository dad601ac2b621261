import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { Engine } from '../../../src/engine/engine.ts'
import { StreamFilter } from '../../../src/llm/stream-filter.ts'
import { BodyClaim } from '../../../src/proxy/body/body-claims.ts'
import { Settlement } from '../../../src/proxy/llm/settlement.ts'
import { LlmMetrics } from '../../../src/telemetry/metrics/llm-metrics.ts'
import { llmRule, policy } from '../../support/bundles/bundles.ts'
import { both, CHAT, HELLO, HELLO_TOKENS, type LlmProxy, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatChunk } from '../../support/llm/llm-streams.ts'
import { type ScriptedLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { breakOnce, MISTAKE } from '../../support/proxy/mistakes.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

/** Mistakes of our own, made once and on purpose: each costs one request, and never the worker that serves all the others. */

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }
/** Without [DONE]: it is settled at its end. */
const TEXT = chatChunk({ content: 'abcd' }).repeat(50)

function encoded(coding: string): Buffer {
  return coding === 'gzip' ? gzipSync(TEXT) : Buffer.from(TEXT)
}

function streaming(coding: string): Promise<ScriptedLlm> {
  return scriptedLlm(async (call) => {
    call.begin({ 'Content-Encoding': coding })
    const bytes = encoded(coding)
    await call.writeInPieces(bytes, Math.ceil(bytes.length / 10))
    call.end()
  })
}

async function expectInternalError(proxy: LlmProxy): Promise<void> {
  expect(await untilLogged(proxy.edge, 'internal_error')).toMatchObject([{ err: { message: MISTAKE.message } }])
  expect((await proxy.edge.get('/livez')).status).toBe(200)
}

async function expectServing(proxy: LlmProxy): Promise<void> {
  await expectInternalError(proxy)
  expect((await proxy.stream(CHAT, ASKED)).outcome).toBe('whole')
  await proxy.untilQuiet()
}

describe.each(['gzip', 'identity'])('a stream in %s', (coding) => {
  test.each([
    ['push', 0],
    ['end', HELLO_TOKENS + 50],
  ] as const)('whose filter breaks (%s) is broken off, and costs what was seen: %d', async (method, cost) => {
    const proxy = await llmProxy(await streaming(coding))
    breakOnce(StreamFilter.prototype, method)
    const client = await proxy.open(CHAT, ASKED).untilClosed()
    expect(client.outcome === 'whole' ? client.status : client.outcome).toBe(client.status === 500 ? 500 : 'broken')
    expect(await proxy.spent()).toEqual(both(cost))
    await expectServing(proxy)
  })

  test.each(['push', 'end'] as const)(
    'that is only counted passes when the count breaks (%s), and costs what was reserved',
    async (method) => {
      const backend = await streaming(coding)
      const proxy = await llmProxy(backend)
      breakOnce(StreamFilter.prototype, method)
      const client = await proxy.open(CHAT, { ...ASKED, stream: false }).untilClosed()
      expect([client.outcome, client.bytes.equals(encoded(coding))]).toEqual(['whole', true])
      expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
      await expectServing(proxy)
    },
  )
})

test('a stream that turns out to be damaged while the settlement breaks ends, and the worker goes on', async () => {
  let isDamaged = true
  const backend = await scriptedLlm(async (call) => {
    call.begin({ 'Content-Encoding': 'gzip' })
    await call.writeInPieces(isDamaged ? Buffer.from(TEXT) : encoded('gzip'), 200)
    call.end()
  })
  const proxy = await llmProxy(backend)
  breakOnce(Settlement.prototype, 'keepReservation')
  await proxy.open(CHAT, { ...ASKED, stream: false }).untilClosed()
  isDamaged = false
  await expectServing(proxy)
})

test.each(['note', 'complete'] as const)('a body that we fail to read (%s) gets 500, and holds no memory', async (method) => {
  const proxy = await llmProxy(await streaming('identity'))
  breakOnce(BodyClaim.prototype, method)
  expect((await proxy.open(CHAT, ASKED).untilClosed()).status).toBe(500)
  await until(async () => (await proxy.edge.metric('edge_proxy_body_memory_bytes')) === 0)
  await expectServing(proxy)
})

describe('a whole answer', () => {
  test.each(['gzip', 'identity'])('in %s whose count breaks is told as our mistake', async (coding) => {
    const usage = { prompt_tokens: 11, completion_tokens: 31 }
    const body = JSON.stringify({ choices: [{ message: { content: 'abcd' } }], usage })
    const backend = await scriptedLlm((call) => call.answer(200, coding === 'gzip' ? gzipSync(body) : body, { 'Content-Encoding': coding }))
    const proxy = await llmProxy(backend)
    breakOnce(LlmMetrics.prototype, 'compareEstimate')
    const client = await proxy.open(CHAT, { messages: HELLO }).untilClosed()
    expect([client.status, client.headers['x-edge-reason']]).toEqual([500, 'internal_error'])
    await expectInternalError(proxy)
    expect((await proxy.open(CHAT, { messages: HELLO }).untilClosed()).status).toBe(200)
  })
})

test('a settlement that fails at once is logged, and leaves the answer and the other rules alone', async () => {
  const other = policy('other', { rules: [llmRule('second', [], { tokens_per_minute: 50_000 })] })
  const proxy = await llmProxy(await streaming('gzip'), { policies: [other] })
  breakOnce(Engine.prototype, 'settle')
  expect((await proxy.stream(CHAT, ASKED)).outcome).toBe('whole')
  expect(await untilLogged(proxy.edge, 'settlement_failed')).toHaveLength(1)
  expect(await proxy.settlements()).toEqual({ done: 1 })
})
