import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { hostsOf, named, routedBundle, routing } from '../../support/proxy/routed.ts'
import { OK, requests } from '../../support/proxy/stale-connection.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const all = (name: string): Record<string, unknown> => ({ selector: { pathPrefix: `/${name}` }, backends: [{ name }] })

/** Answers nothing until it is told to, and then says so much. */
class HangingBackend {
  readonly backend: HttpBackend
  readonly #answers: (() => void)[]

  private constructor(backend: HttpBackend, answers: (() => void)[]) {
    this.backend = backend
    this.#answers = answers
  }

  static async start(): Promise<HangingBackend> {
    const answers: (() => void)[] = []
    return new HangingBackend(await HttpBackend.start((_req, res) => void answers.push(() => res.end('at last'))), answers)
  }

  get url(): string {
    return this.backend.url
  }

  answerAll(): void {
    for (const answer of this.#answers.splice(0)) answer()
  }
}

function sendTo(edge: Edge, path: string, count: number): RawClient[] {
  return Array.from({ length: count }, () => {
    const client = RawClient.connect(edge.port)
    client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    return client
  })
}

/** With so many connections for all backends. */
function sharing(max: number, first: object, backends: Readonly<Record<string, { readonly url: string }>>, env: object): Promise<Edge> {
  return running({
    bundle: first,
    env: {
      EDGE_MODE: 'reverse_proxy',
      EDGE_SHUTDOWN_MS: '0',
      EDGE_BACKEND_MAX_CONNECTIONS: String(max),
      EDGE_BACKEND_QUEUE_MS: '600000',
      EDGE_BACKEND_HOSTS: hostsOf(backends),
      ...env,
    },
  })
}

describe('connections to backends', () => {
  test('a backend that cannot be connected to is asked once, and then the next one', async () => {
    const a = await RawBackend.start(
      () => {},
      (socket) => socket.destroy(),
    )
    const b = await named('b')
    // It accepts connections, and ends them before TLS is established.
    const broken = { url: a.url.replace('http:', 'https:') }
    const edge = await routing({ a: broken, b }, [{ backends: [{ name: 'a' }], fallback: [{ name: 'b' }] }])
    expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`)).text()).toBe('b')
    expect(a.connections.length).toBe(1)
  })

  test('a kept connection that has become stale is replaced by a new one to the same backend', async () => {
    const a = await RawBackend.start(({ socket }, index) => (index === 1 ? socket.destroy() : socket.write(OK)))
    const b = await named('b')
    const edge = await routing({ a, b }, [{ backends: [{ name: 'a' }], fallback: [{ name: 'b' }] }])
    for (const path of ['/1', '/2', '/3']) expect(await (await fetch(`http://127.0.0.1:${edge.port}${path}`)).text()).toBe('ok')
    expect(requests(a)).toEqual(['GET /1', 'GET /2', 'GET /2', 'GET /3'])
    expect(b.seen.length).toBe(0)
  })

  test('all backends, EDGE_BACKEND_URL among them, have equal shares of the connections, so one that hangs starves no other', async () => {
    const [a, last] = [await HangingBackend.start(), await HangingBackend.start()]
    const b = await named('b')
    const backends = { a, b, last }
    const edge = await sharing(6, routedBundle(1, { a, b }, [all('a'), all('b')]), backends, { EDGE_BACKEND_URL: last.url })
    sendTo(edge, '/a', 5)
    sendTo(edge, '/other', 5)
    await until(() => a.backend.seen.length === 2 && last.backend.seen.length === 2)
    await until(async () => (await edge.metric('edge_backend_queue_requests')) === 6)
    for (let i = 0; i < 10; i++) expect(await (await fetch(`http://127.0.0.1:${edge.port}/b`)).text()).toBe('b')
    expect([a.backend.seen.length, last.backend.seen.length]).toEqual([2, 2])
  })

  test('shares follow the bundle: connections beyond them are closed, and waiting requests get those that are free now', async () => {
    const [a, b, last] = [await HangingBackend.start(), await HangingBackend.start(), await HangingBackend.start()]
    const backends = { a, b, last }
    const edge = await sharing(4, routedBundle(1, { a, b }, [all('a'), all('b')]), backends, { EDGE_BACKEND_URL: last.url })
    const open = (): number[] => [a, b, last].map(({ backend }) => backend.openConnections)
    sendTo(edge, '/a', 4)
    sendTo(edge, '/other', 4)
    await until(() => open().join() === '1,0,1')
    await edge.publish(routedBundle(2, { a }, [all('a')]))
    await until(() => open().join() === '2,0,2' && a.backend.seen.length === 2 && last.backend.seen.length === 2)
    a.answerAll()
    await until(() => a.backend.seen.length === 4)
    a.answerAll()
    await edge.publish(routedBundle(3, { a, b }, [all('a'), all('b')]))
    // Idle ones are kept for a minute, as the backend promises to.
    await until(() => open().join() === '1,0,2')
    last.answerAll()
    await until(() => last.backend.seen.length === 3 && open().join() === '1,0,1')
    await edge.publish(bundle(4))
    await until(() => open().join() === '0,0,2')
    sendTo(edge, '/other', 4)
    await until(() => open().join() === '0,0,4')
  })

  test('without routes in the next bundle, the connections of a backend are closed when its last response is over', async () => {
    const a = await HttpBackend.start((_req, res) => void res.write('first '))
    const last = await named('last')
    const edge = await sharing(9, routedBundle(1, { a }, [all('a')]), { a, last }, { EDGE_BACKEND_URL: last.url })
    const [client] = sendTo(edge, '/a', 1) as [RawClient]
    await client.sees('first ')
    let finish = (): void => {}
    a.handler = (_req, res) => {
      finish = () => res.end('second')
    }
    const [second] = sendTo(edge, '/a', 1) as [RawClient]
    await until(() => a.seen.length === 2)
    await edge.publish(bundle(2))
    await until(async () => (await (await fetch(`http://127.0.0.1:${edge.port}/a`)).text()) === 'last')
    finish()
    await second.sees('second')
    client.socket.destroy()
    await until(() => a.openConnections === 0)
    expect(await edge.metric('edge_backend_connections')).toBe(1)
  })

  test('a backend that hangs holds no more body memory than is left: further requests with a body go to the next one', async () => {
    const a = await HttpBackend.start(() => {})
    const b = await named('b')
    const route = { match: { 'llm:model': 'm' }, backends: [{ name: 'a' }], fallback: [{ name: 'b' }], retry: { on: ['connect', '5xx'] } }
    const memory = { EDGE_MAX_BODY_BYTES: '1m', EDGE_BODY_MEMORY: '4m', EDGE_TRUSTED_PROXIES: '127.0.0.1' }
    const edge = await routing({ a, b }, [route, { backends: [{ name: 'a' }] }], { env: memory })
    const body = JSON.stringify({ model: 'm', x: 'x'.repeat(900_000) })
    const ask = (client: number, sent: string): void => {
      const raw = RawClient.connect(edge.port)
      raw.send(`POST /x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 9.9.9.${client}\r\nContent-Length: ${sent.length}\r\n\r\n${sent}`)
    }
    ask(1, body)
    ask(2, body)
    await until(() => a.seen.length === 2)
    for (let i = 3; i < 9; i++) {
      const headers = { 'X-Forwarded-For': `9.9.9.${i}` }
      expect(await (await fetch(`http://127.0.0.1:${edge.port}/x`, { method: 'POST', body, headers })).text()).toBe('b')
    }
    expect(a.seen.length).toBe(2)
    // What needs no such memory still goes to it.
    ask(9, '')
    await until(() => a.seen.length === 3)
  })

  test('a backend that is alone may hold all body memory', async () => {
    const a = await HttpBackend.start(() => {})
    const route = { backends: [{ name: 'a', model: 'm' }] }
    const memory = { EDGE_MAX_BODY_BYTES: '1m', EDGE_BODY_MEMORY: '4m', EDGE_TRUSTED_PROXIES: '127.0.0.1' }
    const edge = await routing({ a }, [route], { env: memory })
    const body = JSON.stringify({ model: 'x', x: 'x'.repeat(900_000) })
    for (let i = 1; i <= 3; i++) {
      const fields = `Host: a\r\nX-Forwarded-For: 9.9.9.${i}\r\nContent-Length: ${body.length}`
      RawClient.connect(edge.port).send(`POST /v1/responses HTTP/1.1\r\n${fields}\r\n\r\n${body}`)
    }
    await until(() => a.seen.length === 3)
  })

  test('a body that no retry can need is released as soon as the backend has it', async () => {
    const a = await HttpBackend.start(() => {})
    const b = await named('b')
    const route = { match: { 'llm:model': 'm' }, backends: [{ name: 'a' }], fallback: [{ name: 'b' }] }
    const again = { ...route, match: { 'llm:model': 'again' }, retry: { on: ['connect', 'timeout'] } }
    const edge = await routing({ a, b }, [route, again])
    const ask = (model: string): void => {
      const body = JSON.stringify({ model, x: 'x'.repeat(200_000) })
      RawClient.connect(edge.port).send(`POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    }
    ask('m')
    await until(() => a.seen.length === 1)
    await a.seen[0]!.body()
    await until(async () => (await edge.metric('edge_proxy_body_memory_bytes')) === 0)
    ask('again')
    await until(() => a.seen.length === 2)
    await a.seen[1]!.body()
    expect(await edge.metric('edge_proxy_body_memory_bytes')).toBeGreaterThan(200_000)
  })
})
