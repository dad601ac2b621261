import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, type LlmProxy, type LlmProxyOptions, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatStream } from '../../support/llm/llm-streams.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import type { Fields } from '../../support/service/http.ts'
import { OtlpReceiver, type ReceivedSpan } from '../../support/traces/otlp-receiver.ts'
import { closeTracesPatiently } from '../../support/traces/patient-traces.ts'
import { callerSpan } from '../../support/traces/trace-contexts.ts'

const SERVER = 2
const CLIENT = 3
const ASKED = { model: 'a-model', max_tokens: 40, messages: HELLO }
const WORDS = Array.from({ length: 50 }, (_, i) => `w${String(i).padStart(3, '0')}`)

async function traced(backend: { readonly port: number }, options: LlmProxyOptions = {}): Promise<[LlmProxy, OtlpReceiver]> {
  closeTracesPatiently()
  const receiver = await OtlpReceiver.start()
  return [await llmProxy(backend, { ...options, env: receiver.env }), receiver]
}

async function spansOf([proxy, receiver]: [LlmProxy, OtlpReceiver]): Promise<Record<'server' | 'client', ReceivedSpan | undefined>> {
  await proxy.edge.stop()
  const ofKind = (kind: number): ReceivedSpan | undefined => receiver.spans.find((span) => span.kind === kind)
  return { server: ofKind(SERVER), client: ofKind(CLIENT) }
}

function tracing(): Fields {
  return [['traceparent', callerSpan().traceparent]]
}

test('a whole response: the model and the tokens that the provider counted', async () => {
  const body = { object: 'chat.completion', choices: [], usage: { prompt_tokens: 7, completion_tokens: 11, total_tokens: 18 } }
  const traces = await traced(await answeringLlm(200, body))
  await traces[0].post(CHAT, ASKED, tracing())
  const { server, client } = await spansOf(traces)
  expect(server!.attributes).toMatchObject({ 'gen_ai.request.model': 'a-model', 'edge.rule': 'budget' })
  expect(server!.attributes).not.toHaveProperty('gen_ai.usage.input_tokens')
  expect(client!.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'a-model',
    'gen_ai.request.max_tokens': 40,
    'gen_ai.usage.input_tokens': 7,
    'gen_ai.usage.output_tokens': 11,
    'edge.llm.end': 'done',
  })
})

test('a stream: the span lasts until its end', async () => {
  const traces = await traced(await fakeLlm())
  const client = await traces[0].stream(CHAT, ASKED, tracing())
  expect(client.outcome).toBe('whole')
  const spans = await spansOf(traces)
  expect(spans.client!.attributes).toMatchObject({ 'gen_ai.request.model': 'a-model', 'edge.llm.end': 'done' })
  expect(spans.client!.attributes['gen_ai.usage.output_tokens']).toBeGreaterThan(0)
})

test('a compressed stream that is only counted: its tokens are on the span, though the client had it before they were counted', async () => {
  const backend = await scriptedLlm(async (call) => {
    call.begin({ 'Content-Encoding': 'gzip' })
    await call.writeInPieces(gzipSync(chatStream(WORDS)), 13)
    call.end()
  })
  const traces = await traced(backend, { mode: 'shadow' })
  await traces[0].stream(CHAT, ASKED, tracing())
  await traces[0].untilQuiet()
  const { client } = await spansOf(traces)
  expect(client!.attributes).toMatchObject({ 'edge.llm.end': 'done', 'gen_ai.usage.output_tokens': WORDS.length })
})

test('a stream that is cut says so', async () => {
  const options = { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1 } }
  const traces = await traced(await streamingLlm(chatStream(WORDS)), options)
  await traces[0].stream(CHAT, ASKED, tracing())
  const { server, client } = await spansOf(traces)
  expect(client!.attributes).toMatchObject({
    'edge.llm.end': 'truncated',
    'gen_ai.usage.input_tokens': HELLO_TOKENS,
    'gen_ai.usage.output_tokens': 11,
  })
  expect(server!.status.code).toBe(0)
})

test('a stream whose client goes away: what it had seen is on the span', async () => {
  const backend = await scriptedLlm()
  const traces = await traced(backend)
  const client = traces[0].open(CHAT, { stream: true, ...ASKED }, tracing())
  const call = await backend.next()
  call.begin()
  await call.write(chatStream(WORDS).slice(0, 2000))
  await client.untilText('w001')
  client.reset()
  await traces[0].untilQuiet()
  const spans = await spansOf(traces)
  expect(spans.client!.attributes).toMatchObject({ 'edge.llm.end': 'client_gone', 'gen_ai.usage.input_tokens': HELLO_TOKENS })
  expect(spans.server!.events).toMatchObject([{ name: 'client_gone' }])
})

test('a request that is rejected for its tokens: the model, and no call', async () => {
  const traces = await traced(await fakeLlm(), { minuteTokens: 5 })
  expect((await traces[0].post(CHAT, ASKED, tracing())).status).toBe(429)
  const { server, client } = await spansOf(traces)
  expect(server!.attributes).toMatchObject({ 'gen_ai.request.model': 'a-model', 'edge.reason': 'tpm_exceeded' })
  expect(client).toBeUndefined()
})

test('a body that is too large has its reason on the span', async () => {
  closeTracesPatiently()
  const receiver = await OtlpReceiver.start()
  const proxy = await llmProxy(await fakeLlm(), { env: { ...receiver.env, EDGE_MAX_BODY_BYTES: '16' } })
  expect((await proxy.post(CHAT, ASKED, tracing())).status).toBe(413)
  const { server } = await spansOf([proxy, receiver])
  expect(server!.attributes).toMatchObject({ 'edge.action': 'refuse', 'edge.reason': 'body_too_large', 'http.response.status_code': 413 })
})
