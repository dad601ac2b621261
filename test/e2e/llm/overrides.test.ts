import { describe, expect, test } from 'vitest'
import { ADMIN_ENV } from '../../support/admin/admin-client.ts'
import { Operator } from '../../support/admin/operator.ts'
import { blockRule, bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatStream } from '../../support/llm/llm-streams.ts'
import { scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import type { Edge } from '../../support/service/edge.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const BODY = JSON.stringify({ stream: true, messages: HELLO })
const WORDS = Array.from({ length: 50 }, () => 'abcd')
const CUT = { max_completion_tokens: 10, streaming: { buffer_tokens: 1 } }

async function proxying(backend: { readonly port: number }, ...rules: object[]): Promise<{ edge: Edge; operator: Operator }> {
  const env = { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend), ...ADMIN_ENV }
  const edge = await running({ bundle: bundle(1, policy('p', { rules })), env })
  return { edge, operator: new Operator(edge.adminPort) }
}

const chat = (edge: Edge): Promise<Answer> => ask(edge.port, 'POST', CHAT, [], BODY)

describe('shadow_all before an LLM', () => {
  const rule = llmRule('budget', [], { tokens_per_minute: 1000, ...CUT })

  test('lets streams pass byte for byte, without a field or a question of its own', async () => {
    const text = chatStream(WORDS)
    const backend = await streamingLlm(text)
    const { edge, operator } = await proxying(backend, rule)
    const stream = () => new StreamClient(edge.port, CHAT, BODY, [['Accept-Encoding', 'br']]).untilClosed()
    expect((await stream()).text).not.toBe(text)
    const { id } = await operator.override({ shadow_all: true })
    const shadowed = await stream()
    expect([shadowed.outcome, shadowed.text]).toEqual(['whole', text])
    expect(backend.calls.map(({ req }) => req.headers['accept-encoding'])).toEqual(['identity', 'br'])
    expect(await untilLogged(edge, 'would_truncate')).toHaveLength(1)
    await operator.end(id)
    expect((await stream()).text).not.toBe(text)
  })

  test('cuts no stream that began before it', async () => {
    const backend = await scriptedLlm()
    const { edge, operator } = await proxying(backend, rule)
    const client = new StreamClient(edge.port, CHAT, BODY)
    const call = await backend.next()
    call.begin()
    call.write(chatStream(WORDS.slice(0, 5)).split('data: [DONE]')[0]!)
    await client.untilText('abcd')
    await operator.override({ shadow_all: true })
    call.write(chatStream(WORDS.slice(5)))
    call.end()
    await client.untilClosed()
    expect(client.outcome).toBe('whole')
    expect(client.text.match(/abcd/g)).toHaveLength(WORDS.length)
    expect(await metric(edge.adminPort, 'edge_llm_truncations_total{policy="p",rule="budget",cause="max_completion_tokens"}')).toBe(0)
  })

  test('rejects nobody, and takes what fits', async () => {
    const { edge, operator } = await proxying(
      await streamingLlm(chatStream(['abcd'])),
      bucketRule('r', [], 1, 1e-6),
      blockRule('no', { 'header:x-t': 'x' }),
    )
    expect((await chat(edge)).status).toBe(200)
    const { id } = await operator.override({ shadow_all: true })
    const answer = await chat(edge)
    expect(answer.status).toBe(200)
    expect(answer.headers).not.toHaveProperty('ratelimit')
    expect((await ask(edge.port, 'POST', CHAT, [['X-T', 'x']], BODY)).status).toBe(200)
    expect(await metric(edge.adminPort, 'edge_would_reject_total{policy="p",rule="r",reason="token_bucket_exceeded"}')).toBe(1)
    expect(await metric(edge.adminPort, 'edge_would_reject_total{policy="p",rule="no",reason="blocked"}')).toBe(1)
    await operator.end(id)
    expect((await chat(edge)).status).toBe(429)
  })
})

test('a block of a rule is a 403 as that of a block rule, and both reasons of the rule are counted apart', async () => {
  const { edge, operator } = await proxying(await streamingLlm(chatStream(['abcd'])), bucketRule('r', [], 1, 1e-6))
  await chat(edge)
  expect((await chat(edge)).status).toBe(429)
  await operator.override({ policy: 'p', rule: 'r', all: true, block: true })
  const blocked = await chat(edge)
  expect(blocked).toMatchObject({ status: 403, headers: { 'x-edge-reason': 'blocked', 'x-should-retry': 'false' } })
  expect(JSON.parse(blocked.body).error).toEqual({ message: 'Access is blocked.', type: 'permission_error', code: 'blocked' })
  for (const reason of ['blocked', 'token_bucket_exceeded']) {
    expect(await metric(edge.adminPort, `edge_decisions_total{action="reject",reason="${reason}",policy="p",route="/"}`)).toBe(1)
  }
})

describe('a block with cut_streams', () => {
  const cases = [
    ['a caller', llmRule('budget', ['header:x-org'], { tokens_per_minute: 10_000 }), { 'header:x-org': 'acme' }],
    ['a model, which only the body names', llmRule('budget', ['llm:model'], { tokens_per_minute: 10_000 }), { 'llm:model': 'large' }],
  ] as const

  test.each(cases)('ends the streams of %s as a truncation does', async (_what, rule, values) => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write(chatStream(WORDS.slice(0, 5)).split('data: [DONE]')[0]!)
    })
    const { edge, operator } = await proxying(backend, rule)
    const open = (org: string, model: string) =>
      new StreamClient(edge.port, CHAT, JSON.stringify({ stream: true, model, messages: HELLO }), [['X-Org', org]]).untilText('abcd')
    const [cut, other] = await Promise.all([open('acme', 'large'), open('umbrella', 'small')])
    await operator.override({ policy: 'p', rule: 'budget', values, block: true, cut_streams: true })
    await cut.untilClosed()
    expect([cut.outcome, other.outcome]).toEqual(['whole', 'open'])
    expect(cut.data.at(-1)).toBe('[DONE]')
    expect(cut.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    expect(await metric(edge.adminPort, 'edge_proxy_streams_cut_total{policy="p",rule="budget"}')).toBe(1)
    other.abort()
  })
})
