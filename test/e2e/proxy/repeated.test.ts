import { expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO } from '../../support/llm/llm-proxy.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying, type RawAnswer, RawClient, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'

const TWICE: Fields = [
  ['Authorization', 'Bearer team-a'],
  ['Authorization', 'x1'],
]
const BUDGET = { tokens_per_minute: 1000, max_completion_tokens: 100 }

test('a field that a limit is keyed by may not come twice: 400, and the backend is not asked', async () => {
  const [edge, backend] = await limited([policy('p', { rules: [bucketRule('r', ['bearer'], 2)] })])
  const { status, headers, body } = await ask(edge.port, 'GET', '/', TWICE)
  expect([status, headers['x-edge-reason'], backend.seen.length]).toEqual([400, 'repeated_descriptor', 0])
  expect(JSON.parse(body).error).toMatchObject({ type: 'invalid_request_error', code: 'repeated_descriptor' })
  expect((await ask(edge.port, 'GET', '/', [['authorization', 'BEARER team-a']])).headers['ratelimit-remaining']).toBe('1')
})

test('a token budget refuses before it reads the body, and takes nothing', async () => {
  const [edge, backend] = await limited([policy('p', { rules: [llmRule('budget', ['bearer'], BUDGET)] })])
  // The body never comes, so an answer cannot have waited for it.
  for (const framing of ['Content-Length: 100', 'Transfer-Encoding: chunked', 'Content-Length: 100\r\nExpect: 100-continue']) {
    expect(await headOnly(edge, framing)).toMatchObject({ status: 400 })
  }
  expect(backend.seen).toHaveLength(0)
  const allowed = await ask(edge.port, 'POST', CHAT, [TWICE[0]!], JSON.stringify({ max_tokens: 100, messages: HELLO }))
  expect(allowed.headers['ratelimit-remaining']).toBe(String(1000 - 103))
})

test('so does a token budget beside a plain rule that reads what comes twice, and a plain rule beside a budget', async () => {
  const everyone = llmRule('budget', [], BUDGET)
  const [edge, backend] = await limited([policy('p', { rules: [everyone] }), policy('q', { rules: [bucketRule('r', ['bearer'], 2)] })])
  expect(await headOnly(edge, 'Content-Length: 100')).toMatchObject({ status: 400 })
  const [other] = await limited([policy('p', { rules: [llmRule('budget', ['bearer'], BUDGET), bucketRule('r', [], 2)] })])
  expect(await headOnly(other, 'Content-Length: 100')).toMatchObject({ status: 400 })
  expect(backend.seen).toHaveLength(0)
})

test('a token budget in shadow mode that reads what comes twice is left out', async () => {
  const shadow = policy('s', {
    mode: 'shadow',
    rules: [llmRule('budget', ['bearer'], { ...BUDGET, tokens_per_minute: 1 }), bucketRule('all', [], 1)],
  })
  const [edge, backend] = await limited([shadow])
  for (const _ of [1, 2]) {
    const { status, headers } = await ask(edge.port, 'POST', CHAT, TWICE, JSON.stringify({ messages: HELLO }))
    expect([status, Object.keys(headers).filter((name) => name.startsWith('ratelimit') || name.startsWith('x-edge'))]).toEqual([200, []])
  }
  expect(backend.seen).toHaveLength(2)
  expect(edge.logged('would_reject')).toEqual([])
})

test('fields that an untrusted peer may not send are ignored, once or twice; a trusted one may not send them twice', async () => {
  const rules = [bucketRule('type', ['ip:type'], 1), bucketRule('tor', ['ip:tor'], 1)]
  const twice: Fields = ['X-ASN-Type', 'X-Tor-Exit'].flatMap((name) => ['1', '0'].map((value) => [name, value] as const))
  const [edge, backend] = await limited([policy('p', { rules })], { EDGE_TRUSTED_PROXIES: '10.0.0.0/8' })
  for (const _ of [1, 2]) expect((await ask(edge.port, 'GET', '/', twice)).status).toBe(200)
  expect(backend.seen).toHaveLength(2)
  const [trusting] = await limited([policy('p', { rules })])
  expect((await ask(trusting.port, 'GET', '/', twice)).headers['x-edge-reason']).toBe('repeated_descriptor')
})

async function limited(policies: readonly PolicyText[], env: Record<string, string> = {}): Promise<[Edge, HttpBackend]> {
  const backend = await HttpBackend.start()
  return [await proxying(backend, { bundle: bundle(1, ...policies), clock: new ManualClock(), env }), backend]
}

async function headOnly(edge: Edge, framing: string): Promise<RawAnswer> {
  const client = RawClient.connect(edge.port)
  const fields = TWICE.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  client.send(`POST ${CHAT} HTTP/1.1\r\nHost: a\r\n${fields}${framing}\r\n\r\n`)
  const answer = await client.next()
  expect(valuesOf(answer, 'x-edge-reason')).toEqual(['repeated_descriptor'])
  return answer
}
