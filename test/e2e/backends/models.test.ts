import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { named, routing } from '../../support/proxy/routed.ts'
import { until } from '../../support/until.ts'

const TO_SMALL = { backends: [{ name: 'a', model: 'small' }] }
const JSON_TYPE = { 'Content-Type': 'application/json' }

/** A backend that keeps the bodies of its requests and answers with their paths. */
async function keeping(): Promise<{ a: HttpBackend; bodies: Buffer[] }> {
  const bodies: Buffer[] = []
  const a = await HttpBackend.start(async (req, res, { body }) => {
    bodies.push(await body())
    res.end(req.url)
  })
  return { a, bodies }
}

describe('a route with a model', () => {
  test('passes a request without a body as it came if its path names no model', async () => {
    const { a } = await keeping()
    const edge = await routing({ a }, [TO_SMALL])
    for (const [method, path] of [
      ['GET', '/v1/models'],
      ['GET', '/v1/models/big'],
      ['DELETE', '/v1/files/file-1?x=1'],
      ['OPTIONS', '/v1/chat/completions'],
      ['POST', '/v1/batches/1/cancel'],
    ] as const) {
      const response = await fetch(`http://127.0.0.1:${edge.port}${path}`, { method })
      expect([method, response.status, await response.text()]).toEqual([method, 200, path])
    }
    expect((await fetch(`http://127.0.0.1:${edge.port}/v1/models`, { method: 'HEAD' })).status).toBe(200)
    expect(a.seen.at(-1)).toMatchObject({ method: 'HEAD', url: '/v1/models' })
  })

  test('refuses a WebSocket, whose model it could not replace', async () => {
    const { a } = await keeping()
    const edge = await routing({ a }, [TO_SMALL])
    const handshake =
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=='
    const client = RawClient.connect(edge.port)
    client.send(`GET /v1/realtime?model=big HTTP/1.1\r\nHost: a\r\n${handshake}\r\n\r\n`)
    await until(() => client.received.includes('\r\n\r\n'))
    expect(statusesIn(client.received)).toEqual([400])
    expect(client.received).toContain('\r\nX-Edge-Reason: model_not_replaceable\r\n')
    expect(a.seen.length).toBe(0)
  })

  test('refuses a compressed body, a form and an unreadable one, before anything is taken', async () => {
    const { a } = await keeping()
    const rules = [bucketRule('r', ['ip:address'], 1, 0.0001)]
    const edge = await routing({ a }, [TO_SMALL], { policies: [policy('p', { rules })] })
    const form = new FormData()
    form.set('model', 'big')
    form.set('file', new Blob(['x']), 'x.wav')
    const body = '{"model":"big","messages":[]}'
    for (const init of [
      { body: gzipSync(body), headers: { ...JSON_TYPE, 'Content-Encoding': 'gzip' } },
      { body: form },
      { body: '{"model":1}', headers: JSON_TYPE },
      { body: '{"model":"big"', headers: JSON_TYPE },
      { body: Buffer.from(body, 'utf16le'), headers: JSON_TYPE },
    ]) {
      const refused = await fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, { method: 'POST', ...init })
      expect([refused.status, refused.headers.get('x-edge-reason')]).toEqual([400, 'model_not_replaceable'])
    }
    expect(a.seen.length).toBe(0)
    const ask = () => fetch(`http://127.0.0.1:${edge.port}/v1/chat/completions`, { method: 'POST', body, headers: JSON_TYPE })
    expect([(await ask()).status, (await ask()).status]).toEqual([200, 429])
  })

  test('replaces the model in the paths of Google and Azure, and a second one in the body', async () => {
    const { a, bodies } = await keeping()
    const edge = await routing({ a: { url: `${a.url}/base` } }, [TO_SMALL])
    const asked = async (path: string, body: string) =>
      (await fetch(`http://127.0.0.1:${edge.port}${path}`, { method: 'POST', body, headers: JSON_TYPE })).text()
    expect(await asked('/v1beta/models/big:streamGenerateContent?alt=sse', '{"contents":[]}')).toBe(
      '/base/v1beta/models/small:streamGenerateContent?alt=sse',
    )
    expect(await asked('/v1beta/models/big:embedContent', '{"model":"models/big","content":{}}')).toBe(
      '/base/v1beta/models/small:embedContent',
    )
    expect(await asked('/openai/deployments/Big/chat/completions?api-version=1', '{"model":"any","messages":[]}')).toBe(
      '/base/openai/deployments/small/chat/completions?api-version=1',
    )
    expect(bodies.map(String)).toEqual(['{"contents":[]}', '{"model":"models/small","content":{}}', '{"model":"any","messages":[]}'])
  })

  test('sends each backend its own model, and a large body otherwise byte for byte', async () => {
    const { a: b, bodies } = await keeping()
    const a = await HttpBackend.start(async (_req, res, { body }) => {
      bodies.push(await body())
      res.writeHead(500).end()
    })
    const route = {
      backends: [{ name: 'a', model: 'a-much-longer-name' }],
      fallback: [{ name: 'b', model: 's' }, { name: 'b' }],
      retry: { on: ['5xx'], attempts: 1 },
    }
    const edge = await routing({ a, b }, [route])
    const [before, after] = [`{"x":"${'é'.repeat(400_000)}","model" : `, `,"messages":["${'\\u0041'.repeat(100_000)}"]}\n`]
    const body = `${before}"big"${after}`
    expect((await fetch(`http://127.0.0.1:${edge.port}/v1/responses`, { method: 'POST', body, headers: JSON_TYPE })).status).toBe(200)
    expect(bodies.map((bytes) => bytes.equals(Buffer.from(`${before}"a-much-longer-name"${after}`)))).toEqual([true, false])
    expect(bodies[1]!.equals(Buffer.from(`${before}"s"${after}`))).toBe(true)
  })

  test('cannot be used with a model that the path cannot name', async () => {
    const a = await named('a')
    const edge = await routing({ a }, [{ backends: [{ name: 'a', model: '../x' }] }])
    const asked = await fetch(`http://127.0.0.1:${edge.port}/v1beta/models/big:generateContent`, { method: 'POST', body: '{}' })
    expect([asked.status, asked.headers.get('x-edge-reason'), a.seen.length]).toEqual([400, 'model_not_replaceable', 0])
  })
})

test.each([
  ['fields', { match: { 'header:x-to': 'a' } }],
  ['its body', { match: { 'header:x-to': 'a', 'llm:model': '*' } }],
])('the path of EDGE_BACKEND_URL names the model only of requests that go there, if a route is found by %s', async (_, route) => {
  const [a, last] = [await named('a'), await named('last')]
  const rules = [blockRule('no-cheap', { 'llm:model': 'cheap' })]
  const edge = await routing(
    { a },
    [
      { ...route, backends: [{ name: 'a' }] },
      { selector: { pathPrefix: '/never' }, backends: [{ name: 'a' }] },
    ],
    {
      env: { EDGE_BACKEND_URL: `${last.url}/openai/deployments/cheap` },
      policies: [policy('p', { rules })],
    },
  )
  const asked = async (to: string, model: string) => {
    const init = { method: 'POST', body: JSON.stringify({ model, messages: [] }), headers: { ...JSON_TYPE, 'X-To': to } }
    const response = await fetch(`http://127.0.0.1:${edge.port}/chat/completions`, init)
    return [response.status, response.status === 200 && (await response.text())]
  }
  expect(await asked('a', 'dear')).toEqual([200, 'a'])
  expect(await asked('a', 'cheap')).toEqual([403, false])
  expect(await asked('last', 'dear')).toEqual([403, false])
})
