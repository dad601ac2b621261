import { beforeAll, describe, expect, test } from 'vitest'
import { bucketRule, bundle, concurrencyRule, llmRule, policy } from '../bundles/bundles.ts'
import { CHAT, HELLO } from '../llm/llm-proxy.ts'
import type { Edge } from '../service/edge.ts'
import { ask } from '../service/http.ts'
import { thisSuite } from '../service/suite-owner.ts'
import { until } from '../until.ts'
import type { RawBackend } from './backend.ts'
import { AN_HOUR, holdsBackend, openHolds, openTunnel, send, untilLost, wait } from './holds.ts'
import { proxying, type RawClient } from './proxy.ts'

type Scenario = (edge: Edge, backend: RawBackend) => Promise<unknown>

function chat(edge: Edge, query = ''): RawClient {
  const body = JSON.stringify({ messages: HELLO, stream: query !== '' })
  return send(edge, `POST ${CHAT}${query} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
}

/** Every way in which a request can end, as a client or a backend ends it. */
export const HOLD_ENDS: readonly (readonly [string, Scenario])[] = [
  ['a response', (edge) => edge.get('/')],
  ['a response to HEAD', (edge) => ask(edge.port, 'HEAD', '/')],
  [
    'a response before all of the request has come',
    async (edge) => {
      const client = send(edge, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf')
      await client.sees(' 200 ')
    },
  ],
  ['an error of the backend', async (edge) => expect((await edge.get('/500')).status).toBe(500)],
  ['a backend that hangs up', async (edge) => expect((await ask(edge.port, 'POST', '/hang-up', [], 'x')).status).toBe(502)],
  [
    'a backend that hangs up within its response',
    async (edge) => {
      const client = send(edge, 'GET /half HTTP/1.1\r\nHost: a\r\n\r\n')
      await client.closed()
    },
  ],
  ['a backend that talks nonsense', async (edge) => expect((await edge.get('/nonsense')).status).toBe(502)],
  ['a backend that never responds', async (edge) => expect((await edge.get('/never')).status).toBe(504)],
  [
    'a client that goes before the response',
    async (edge, backend) => {
      const client = await wait(edge, backend)
      client.socket.destroy()
      await untilLost(backend, '/wait')
    },
  ],
  [
    'a client that breaks off its upload',
    async (edge, backend) => {
      const heads = backend.heads
      const client = send(edge, 'POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf')
      await until(() => backend.heads === heads + 1)
      client.socket.destroy()
      await untilLost(backend, '/wait')
    },
  ],
  [
    'a client that goes in the middle of a stream',
    async (edge) => {
      const client = send(edge, 'GET /stream HTTP/1.1\r\nHost: a\r\n\r\n')
      await client.sees('one')
      client.socket.destroy()
    },
  ],
  [
    'a tunnel that the client closes',
    async (edge) => {
      const client = await openTunnel(edge)
      client.socket.destroy()
    },
  ],
  [
    'a tunnel that the backend closes',
    async (edge, backend) => {
      const client = await openTunnel(edge)
      backend.connections.findLast(({ received }) => received.includes(' /tunnel '))!.socket.destroy()
      await client.closed()
    },
  ],
  [
    'an upgrade that is not accepted',
    (edge) =>
      edge.get('/', [
        ['Connection', 'Upgrade'],
        ['Upgrade', 'websocket'],
      ]),
  ],
  [
    'a whole LLM response',
    async (edge) => {
      const client = chat(edge)
      await client.sees('"usage"')
    },
  ],
  [
    'an LLM stream',
    async (edge) => {
      const client = chat(edge, '?stream')
      await client.sees('[DONE]')
    },
  ],
  [
    'an LLM stream that is cut',
    async (edge) => {
      const client = chat(edge, '?long')
      await client.sees('"finish_reason":"length"')
      await client.sees('[DONE]')
    },
  ],
  [
    'a client that goes in the middle of an LLM stream',
    async (edge) => {
      const client = chat(edge, '?open')
      await client.sees('word')
      client.socket.destroy()
    },
  ],
  [
    'a client that goes while its LLM body is read',
    async (edge) => {
      const client = send(edge, `POST ${CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n`)
      await client.sees(' 100 ')
      client.socket.destroy()
    },
  ],
  [
    'a reject by another rule',
    async (edge) => {
      const fields = [['X-Spent', 'yes']] as const
      await edge.get('/', fields)
      expect(await edge.get('/', fields)).toMatchObject({ status: 429, headers: { 'x-edge-reason': 'token_bucket_exceeded' } })
    },
  ],
]

/** Of each kind the most usual one. */
export const COMMON_ENDS = [
  'a response',
  'a backend that hangs up',
  'a client that goes before the response',
  'a tunnel that the client closes',
  'an LLM stream',
  'a reject by another rule',
]

/** Has requests end in these ways at one proxy. */
export function holdEndsSuite(ends: readonly (readonly [string, Scenario])[]): void {
  describe('a hold is released, once, after', () => {
    const suite = thisSuite()
    let backend: RawBackend
    let edge: Edge
    beforeAll(async () => {
      backend = await holdsBackend(suite)
      const config = { tokens_per_minute: 1_000_000, max_completion_tokens: 20, streaming: { buffer_tokens: 1 } }
      const all = [concurrencyRule('three', [], 3, AN_HOUR), bucketRule('spent', ['header:x-spent'], 1, 0.0001)]
      const llm = policy('llm', { selector: { pathPrefix: CHAT }, rules: [llmRule('budget', [], config)] })
      const env = { EDGE_BACKEND_HEADERS_TIMEOUT_MS: '500' }
      edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules: all }), llm), env }, suite)
    })

    test.each(ends)('%s', (_, scenario) => expectFreed(edge, backend, scenario))
  })
}

/** Whatever the scenario took is free again, and nothing that others have. */
async function expectFreed(edge: Edge, backend: RawBackend, scenario: Scenario): Promise<void> {
  // Two that stay: if the hold of one of them were released too, a fourth would pass below.
  const staying = [await openTunnel(edge), await openTunnel(edge)]
  await scenario(edge, backend)
  await until(async () => (await openHolds(edge)) === 2)
  const third = await openTunnel(edge)
  expect((await edge.get('/')).status).toBe(429)
  for (const client of [...staying, third]) client.socket.destroy()
  await untilLost(backend, '/tunnel')
  await until(async () => (await openHolds(edge)) === 0)
  const free = await edge.get('/')
  expect([free.status, free.headers['ratelimit-remaining']]).toEqual([200, '2'])
}
