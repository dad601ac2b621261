import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { bucketRule, budgetRule, bundle, llmRule, matching, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { tested } from '../../support/cases/tested.ts'
import { RawBackend } from '../../support/proxy/backend.ts'
import { proxying, type RawAnswer, RawClient, readAnswer, valuesOf } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

/** Nothing in a WebSocket is counted, so budgets refuse them. */

const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
const PRICES = { main: { '*': { input: 1, output: 1 } } }
const TOKENS = llmRule('tokens', [], { tokens_per_day: 100_000 })
const MONEY = budgetRule('money', [], { budget: 10, period: '1d', prices: 'main' })

async function fronting(rule: object, mode?: 'shadow', ...others: readonly (object | undefined)[]): Promise<Edge> {
  const spec = { ...(mode && { mode }), rules: [rule, ...others].filter((each) => each !== undefined) }
  const backend = await RawBackend.saying(SWITCHED)
  return proxying(backend, { clock: new ManualClock(), bundle: { ...bundle(1, policy('p', spec)), prices: PRICES } })
}

async function upgrading(edge: Edge, target: string, upgrade = 'websocket', connection = 'Upgrade'): Promise<RawAnswer> {
  const head = `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: ${connection}\r\nUpgrade: ${upgrade}\r\n`
  const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
  const client = RawClient.connect(edge.port)
  client.send(`${head}${key}\r\n`)
  await client.sees('\r\n\r\n')
  // A tunnel stays open; any other response is the last of its connection.
  if (!client.received.startsWith('HTTP/1.1 101')) await client.closed()
  return readAnswer(client.received)
}

const LIVE = '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent'

describe('under a budget, a WebSocket', () => {
  test.each([
    ['tokens', TOKENS],
    ['money', MONEY],
  ])('is refused with 426, and nothing is taken (%s)', async (_of, rule) => {
    const edge = await fronting(rule)
    const answer = await upgrading(edge, '/v1/realtime?model=gpt-realtime')
    expect([answer.status, ...['x-edge-reason', 'upgrade'].flatMap((name) => valuesOf(answer, name))]).toEqual([
      426,
      'websocket_not_counted',
      'HTTP/1.1',
    ])
    expect(valuesOf(answer, 'connection')).toEqual(['Upgrade, close'])
    expect(JSON.parse(answer.body).error).toMatchObject({ type: 'invalid_request_error', code: 'websocket_not_counted' })
    expect(await edge.metric('edge_proxy_open_tunnels')).toBe(0)
  })

  test.each([
    '/v1/realtime/',
    '/v1/%2572ealtime;v=1',
    '/v1/realtime/translations',
    '/v1/realtime,',
    '/v1/realtime%C2%A0',
    '/v1/live',
    'http://a/v1/responses',
    LIVE,
    `${LIVE}Constrained`,
    LIVE.replace('Content', 'Music'),
    '/',
  ])('is refused whatever its path: %s', async (target) => {
    expect((await upgrading(await fronting(TOKENS), target)).status).toBe(426)
  })

  test.each([
    ['WebSocket', 'Upgrade'],
    ['WEBSOCKET', 'keep-alive, Upgrade'],
    ['websocket', 'UPGRADE'],
  ])('is refused however the upgrade is spelled: %s, %s', async (upgrade, connection) => {
    expect((await upgrading(await fronting(TOKENS), '/v1/realtime', upgrade, connection)).status).toBe(426)
  })

  test("has Google's form of errors at Google's path", async () => {
    const answer = await upgrading(await fronting(TOKENS), LIVE)
    expect(JSON.parse(answer.body).error).toMatchObject({
      code: 426,
      status: 'FAILED_PRECONDITION',
      details: [{ reason: 'WEBSOCKET_NOT_COUNTED' }],
    })
  })

  test('passes with websockets: reserve, for what a request without a bound reserves', async () => {
    const edge = await fronting(llmRule('tokens', [], { tokens_per_day: 100_000, websockets: 'reserve' }))
    const answer = await upgrading(edge, '/v1/realtime')
    expect([answer.status, ...valuesOf(answer, 'ratelimit-remaining')]).toEqual([101, '99000'])
  })

  test('passes where no enforcing rule of tokens or money applies to it', async () => {
    for (const edge of [
      await fronting(TOKENS, 'shadow'),
      await fronting(bucketRule('requests', [], 10)),
      await fronting(matching({ 'header:x-plan': 'free', 'llm:model': 'gpt-*' }, TOKENS)),
      await fronting(llmRule('tokens', ['header:x-key', 'llm:model'], { tokens_per_day: 100_000 })),
      await fronting(matching('else', TOKENS), undefined, unlimitedRule('sockets', { 'path:1': 'v1' })),
    ])
      expect((await upgrading(edge, '/v1/realtime')).status).toBe(101)
  })

  test.each<[string, object, object?]>([
    ['counts by model', llmRule('tokens', ['llm:model'], { tokens_per_day: 100_000 })],
    ['prices by model', budgetRule('money', ['llm:model'], { budget: 10, period: '1d', prices: 'main' })],
    ['is about some models', matching({ 'llm:model': 'gpt-*' }, TOKENS)],
    ['is about other models than those that are free', matching('else', TOKENS), unlimitedRule('local', { 'llm:model': 'local-*' })],
    ["counts by a provider's key, which is in the subprotocol", llmRule('tokens', ['bearer'], { tokens_per_day: 100_000 })],
    ['counts by key and model', llmRule('tokens', ['llm:key', 'llm:model'], { tokens_per_day: 100_000 })],
  ])('is refused by a rule that %s', async (_what, rule, other) => {
    const edge = await fronting(rule, undefined, other)
    expect((await upgrading(edge, '/v1/realtime')).status).toBe(426)
    expect(await edge.metric('edge_proxy_open_tunnels')).toBe(0)
  })
})

test('a client of WebSockets sees the status, and the backend nothing', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  let connections = 0
  server.on('connection', () => connections++)
  const { port } = server.address() as { port: number }
  const edge = await proxying({ url: `http://127.0.0.1:${port}` }, { bundle: bundle(1, policy('p', { rules: [TOKENS] })) })
  const client = new WebSocket(`ws://127.0.0.1:${edge.port}/v1/responses`)
  client.on('error', () => {}) // the response below is the reason
  const [, response] = (await once(client, 'unexpected-response')) as [unknown, { statusCode: number }]
  client.terminate()
  server.close()
  expect([response.statusCode, connections]).toEqual([426, 0])
})

test('an upgrade that is none is an ordinary request', async () => {
  const client = RawClient.connect((await fronting(TOKENS)).port)
  client.send('GET /v1/realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n')
  // The backend answers 101 to whatever it is sent.
  expect((await client.next()).status).toBe(502)
})

test('edge test says what the proxy would', async () => {
  const request = { uri: '/v1/realtime', host: 'a', headers: { Connection: 'Upgrade', Upgrade: 'websocket' } }
  const cases = [{ name: 'it', steps: [{ request, expect: { status: 426, reason: 'websocket_not_counted' } }] }]
  const { status, stdout } = await tested(bundle(1, policy('p', { rules: [TOKENS] })), cases, '--mode', 'reverse_proxy')
  expect([status, status === 0 ? '' : stdout]).toEqual([0, ''])
})

test('a bundle whose path is used by WebSockets alone is warned of, until it says what it wants', async () => {
  const at = (config: object) =>
    bundle(1, policy('p', { selector: { pathPrefix: '/v1/realtime' }, rules: [llmRule('r', [], { tokens_per_day: 9000, ...config })] }))
  const backend = await RawBackend.saying(SWITCHED)
  const edge = await proxying(backend, { bundle: at({}) })
  expect(JSON.stringify(await untilLogged(edge, 'bundle_warnings'))).toContain('WebSockets at this path get 426')
  const meant = await proxying(backend, { bundle: at({ websockets: 'refuse' }) })
  expect(JSON.stringify(meant.logged('bundle_warnings'))).not.toContain('WebSockets')
})
