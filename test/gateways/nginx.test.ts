import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { blockRule, bucketRule, bundle, llmRule, policy, rateRule } from '../support/bundles/bundles.ts'
import { describeWithNginx, runningNginx } from '../support/gateways/nginx.ts'
import { HttpBackend } from '../support/proxy/backend.ts'
import type { Edge } from '../support/service/edge.ts'
import { type Answer, ask, type Fields } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'

const PAGE = readText('docs/gateways/nginx.md')
const RECIPE = codeBlocks(PAGE, 'nginx')[0]!
const BACKEND = 'proxy_pass http://127.0.0.1:3000;'

const ALICE: Fields = [['X-Api-Key', 'alice']]
const TWICE: Fields = [...ALICE, ['X-Api-Key', 'x1']]
const HUGE: Fields = [...ALICE, ...Array.from({ length: 10 }, (_, i) => [`X-Pad-${i}`, 'x'.repeat(8000)] as const)]

/** Fields that only a gateway may send, and what a client would write to gain by them. */
const FORGED: Readonly<Record<string, string>> = {
  'X-Original-Method': 'DELETE',
  'X-Original-URI': '/free',
  'X-Original-Host': 'free.example',
  'X-ASN-Type': 'residential',
  'X-Tor-Exit': 'false',
  'X-Edge-Settle': '1',
  'X-Edge-Reservation': 'AAAA',
  'X-Edge-Prompt-Tokens': '1',
  'X-Edge-Max-Tokens': '1',
  'X-Edge-Model': 'cheap',
  'X-Request-Cost': '0.01',
}
const UNITS = { rate: '1000/minute', cost: { header: 'x-request-cost' } }
const GATEWAYS_OWN: Readonly<Record<string, string>> = {
  'X-Original-Method': 'GET',
  'X-Original-URI': '/original',
  'X-Original-Host': '127.0.0.1',
}

describeWithNginx('nginx with the documented recipe', () => {
  test('lets through what is allowed, and passes a reject on', async () => {
    const { port, backend } = await gateway(RECIPE, await edgeWithOneRequest())
    const [first, second] = [await ask(port, 'GET', '/', ALICE), await ask(port, 'GET', '/', ALICE)]
    expect([first.status, first.headers['ratelimit']]).toEqual([200, expect.stringMatching(/;r=0;t=1$/)])
    expect(told(second)).toEqual([429, 'token_bucket_exceeded'])
    expect(second.headers).toMatchObject({ 'retry-after': '1' })
    expect(backend.seen).toHaveLength(1)
  })

  test('refuses what the client got wrong with 400, and everything with 503 while edge is gone', async () => {
    const edge = await edgeWithOneRequest()
    const { port, backend } = await gateway(RECIPE, edge)
    expect(told(await ask(port, 'GET', '/', TWICE))).toEqual([400, 'repeated_descriptor'])
    await edge.stop()
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(503)
    expect(backend.seen).toHaveLength(0)
  })
})

describeWithNginx('nginx with the documented recipe, and a client that says what only a gateway may say', () => {
  test.each(Object.entries(FORGED))('%s does not reach edge', async (name, value) => {
    const asked = await HttpBackend.start()
    const { port, backend } = await gateway(RECIPE, asked)
    expect((await ask(port, 'GET', '/original', [[name, value], ...ALICE])).status).toBe(200)
    expect([asked.only.headers[name.toLowerCase()], backend.seen.length]).toEqual([GATEWAYS_OWN[name], 1])
  })

  test('costs what it would have cost without, and gets no reservation', async () => {
    const rules = [rateRule('units', [], UNITS), llmRule('budget', [], { tokens_per_day: 1000, max_completion_tokens: 10 })]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })), clock: new ManualClock(), env: { EDGE_GATEWAY_HINTS: 'on' } })
    const { port } = await gateway(RECIPE, edge)
    for (const [i, field] of Object.entries(FORGED).entries()) {
      const { status, headers } = await ask(port, 'GET', '/', [field])
      expect([field[0], status, headers['ratelimit'], headers['x-edge-reservation']]).toEqual([
        field[0],
        200,
        `"p";r=${1000 - 10 * (i + 1)};t=43200`,
        undefined,
      ])
    }
    expect(await edge.metric('edge_reservations_total{outcome="issued"}')).toBe(0)
  })

  test('a cost that nginx sets by path is charged, however the path is spelled, and a forged one is not', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [rateRule('units', [], UNITS)] })), clock: new ManualClock() })
    const { port } = await gateway(costByPath(), edge)
    const costs = ['/v1/orders', '/v1/exports', '/v1//exports?x', '/%76%31/exports/7', '/v1/x/../exports']
    const left = []
    for (const path of costs) {
      const { headers } = await ask(port, 'GET', path, [...ALICE, ['X-Request-Cost', '0.01']])
      left.push(/;r=(\d+);/.exec(headers['ratelimit']!)![1])
    }
    expect(left).toEqual(['999', '979', '959', '939', '919'])
  })
})

describeWithNginx('nginx with the documented recipe, and a block', () => {
  test('passes the 403 on with its reason, and asks no backend', async () => {
    const rules = [blockRule('acme', { 'header:x-api-key': 'alice' })]
    const edge = await running({ bundle: bundle(1, policy('incident', { rules })) })
    for (const recipe of [RECIPE, failOpen()]) {
      const { port, backend } = await gateway(recipe, edge)
      const blocked = await ask(port, 'GET', '/', ALICE)
      expect([...told(blocked), blocked.headers['x-should-retry']]).toEqual([403, 'blocked', 'false'])
      expect(told(await ask(port, 'GET', '/', [['X-Api-Key', 'bob']]))).toEqual([200, undefined])
      expect(backend.seen).toHaveLength(1)
    }
  })

  test("leaves the backend's own 403 as it is", async () => {
    const { port, backend } = await gateway(RECIPE, await edgeWithOneRequest())
    backend.handler = (_req, res) => void res.writeHead(403, { 'Content-Type': 'text/plain' }).end('not yours')
    const refused = await ask(port, 'GET', '/', ALICE)
    expect([...told(refused), refused.body]).toEqual([403, undefined, 'not yours'])
  })
})

describeWithNginx('nginx while edge accepts connections and never responds', () => {
  // nginx's own timeouts are 60 s.
  test('gives up: 503, or on to the backend where the recipe fails open', { timeout: 30_000 }, async () => {
    const silent = await silentServer()
    const [closed, open] = [await gateway(RECIPE, silent), await gateway(failOpen(), silent)]
    expect((await ask(closed.port, 'GET', '/', ALICE)).status).toBe(503)
    expect((await ask(open.port, 'GET', '/', ALICE)).status).toBe(200)
    expect([closed.backend.seen.length, open.backend.seen.length]).toEqual([0, 1])
  })
})

describeWithNginx('fail-open nginx, as the recipe has it', () => {
  const recipe = failOpen()

  test('a repeated key is refused, and the backend is not asked', async () => {
    const { port, backend } = await gateway(recipe, await edgeWithOneRequest())
    for (let i = 0; i < 3; i++) expect(told(await ask(port, 'GET', '/', TWICE))).toEqual([400, 'repeated_descriptor'])
    expect(backend.seen).toHaveLength(0)
  })

  test('nor is it asked about a head that edge finds too large, or about a request beyond the limit', async () => {
    const { port, backend } = await gateway(recipe, await edgeWithOneRequest())
    expect(told(await ask(port, 'GET', '/', HUGE))).toEqual([400, undefined])
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    expect(told(await ask(port, 'GET', '/', ALICE))).toEqual([429, 'token_bucket_exceeded'])
    expect(backend.seen).toHaveLength(1)
  })

  test('while edge is gone, requests reach the backend as they came', async () => {
    const edge = await edgeWithOneRequest()
    const { port, backend } = await gateway(recipe, edge)
    await edge.stop()
    expect((await ask(port, 'POST', '/path?query', ALICE, 'a body')).status).toBe(200)
    expect([backend.only.method, backend.only.url, String(await backend.only.body())]).toEqual(['POST', '/path?query', 'a body'])
  })

  test('while edge has no bundle, too', async () => {
    const { port, backend } = await gateway(recipe, await running())
    expect((await ask(port, 'GET', '/', ALICE)).status).toBe(200)
    expect(backend.seen).toHaveLength(1)
  })
})

/** What the recipe says to change. */
function failOpen(): string {
  const open = RECIPE.replace('return 503;', BACKEND)
  if (open === RECIPE || open.split(BACKEND).length !== 3) throw new Error('the recipe has changed')
  return open
}

/** What the recipe says to change. */
function costByPath(): string {
  const map = codeBlocks(PAGE, 'nginx')[1]!
  const [set, field] = ['set $request_cost $cost_of_path;', 'proxy_set_header X-Request-Cost $request_cost;']
  if (!PAGE.includes(set) || !PAGE.includes(field)) throw new Error('the page has changed')
  const charged = RECIPE.replace('location / {', `location / {\n${set}`).replace('proxy_set_header X-Request-Cost "";', field)
  return `${map}${charged}`
}

async function edgeWithOneRequest(): Promise<Edge> {
  const rules = [bucketRule('per-key', ['header:x-api-key'], 1)]
  return running({ bundle: bundle(1, policy('api', { rules })), clock: new ManualClock() })
}

/** For as long as the test runs. */
async function silentServer(): Promise<{ port: number }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => sockets.add(socket.on('error', () => {})))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return server.address() as AddressInfo
}

async function gateway(recipe: string, asked: { readonly port: number }): Promise<{ port: number; backend: HttpBackend }> {
  const backend = await HttpBackend.start()
  const port = await runningNginx((own) =>
    recipe
      .replace('listen 80;', `listen 127.0.0.1:${own};`)
      .replace('server 127.0.0.1:8080;', `server 127.0.0.1:${asked.port};`)
      .replaceAll(BACKEND, `proxy_pass ${backend.url};`),
  )
  return { port, backend }
}

function told({ status, headers }: Answer): [number, string | undefined] {
  return [status, headers['x-edge-reason']]
}
