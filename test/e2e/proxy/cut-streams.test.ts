import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { blockRule, bundle, concurrencyRule, policy } from '../../support/bundles/bundles.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const BLOCK = bundle(2, policy('incident', { rules: [blockRule('acme', { 'header:x-org': 'acme' }, { cut_streams: true })] }))

describe('a block that cuts streams', () => {
  test('ends events that no budget counts; with a length they are broken off, and nothing else is', async () => {
    const backend = await HttpBackend.start((req, res) => {
      const length = req.url === '/length' ? { 'Content-Length': '1000' } : {}
      res.writeHead(200, { 'Content-Type': req.url === '/plain' ? 'text/plain' : 'text/event-stream', ...length })
      res.write('data: 1\n\n')
    })
    const edge = await proxying(backend)
    const open = (path: string, org = 'acme') => new StreamClient(edge.port, path, '', [['X-Org', org]]).untilText('data: 1')
    const clients = await Promise.all([open('/events'), open('/length'), open('/plain'), open('/events', 'umbrella')])
    onTestFinished(() => {
      for (const client of clients) client.abort()
    })
    await edge.publish(BLOCK)
    await Promise.all(clients.slice(0, 2).map((client) => client.untilClosed()))
    expect(clients.map(({ outcome }) => outcome)).toEqual(['whole', 'broken', 'open', 'open'])
    await until(() => backend.seen.filter(({ isAborted }) => isAborted).length === 2)
    expect(await edge.metric('edge_proxy_streams_cut_total{policy="incident",rule="acme"}')).toBe(2)
    await until(async () => (await edge.metric('edge_proxy_open_requests')) === 2)
  })

  test('releases the holds of requests in flight that it ends', async () => {
    const backend = await HttpBackend.start((req, res) => {
      const length = req.url === '/length' ? { 'Content-Length': '1000' } : {}
      res.writeHead(200, { 'Content-Type': 'text/event-stream', ...length })
      res.write('data: 1\n\n')
    })
    const sockets = new WebSocketServer({ server: backend.server })
    onTestFinished(() => sockets.close())
    const three = policy('p', { rules: [concurrencyRule('three', [], 3, 3600)] })
    const edge = await proxying(backend, { bundle: bundle(1, three) })
    const open = (path: string, org: string) => new StreamClient(edge.port, path, '', [['X-Org', org]])
    const clients = await Promise.all(['/events', '/length'].map((path) => open(path, 'acme').untilText('data: 1')))
    const socket = await opened(edge.port, 'acme')
    expect((await edge.get('/')).status).toBe(429)
    const closed = [...clients.map((client) => client.untilClosed()), once(socket, 'close')]
    await edge.publish(
      bundle(2, three, policy('incident', { rules: [blockRule('acme', { 'header:x-org': 'acme' }, { cut_streams: true })] })),
    )
    await Promise.all(closed)
    const others = Array.from({ length: 3 }, () => open('/events', 'umbrella'))
    onTestFinished(() => {
      for (const client of others) client.abort()
    })
    expect(await Promise.all(others.map(async (client) => (await client.untilHead()).status))).toEqual([200, 200, 200])
    expect((await edge.get('/')).status).toBe(429)
  })

  test('closes WebSockets', async () => {
    const backend = await HttpBackend.start()
    const sockets = new WebSocketServer({ server: backend.server })
    onTestFinished(() => sockets.close())
    const edge = await proxying(backend)
    const [cut, other] = await Promise.all(['acme', 'umbrella'].map((org) => opened(edge.port, org)))
    const closed = once(cut!, 'close')
    await edge.publish(BLOCK)
    await closed
    await until(async () => (await edge.metric('edge_proxy_open_tunnels')) === 1)
    expect(other!.readyState).toBe(WebSocket.OPEN)
    expect(await untilLogged(edge, 'streams_cut')).toMatchObject([{ streams: 1 }])
    const answer = new WebSocket(`ws://127.0.0.1:${edge.port}/`, { headers: { 'X-Org': 'acme' } })
    const [error] = (await once(answer, 'error')) as [Error]
    expect(error.message).toContain('403')
  })

  test('closes a WebSocket that was decided before and opens after', async () => {
    const backend = await HttpBackend.start()
    const waiting: (() => void)[] = []
    const sockets = new WebSocketServer({ noServer: true })
    backend.server.on('upgrade', (req, socket, head) => waiting.push(() => sockets.handleUpgrade(req, socket, head, () => {})))
    const edge = await proxying(backend)
    const client = new WebSocket(`ws://127.0.0.1:${edge.port}/`, { headers: { 'X-Org': 'acme' } })
    client.on('error', () => {})
    await until(() => waiting.length === 1)
    await edge.publish(BLOCK)
    waiting[0]!()
    await once(client, 'close')
    expect(await edge.metric('edge_proxy_open_tunnels')).toBe(0)
    expect(edge.logged('internal_error')).toEqual([])
  })
})

async function opened(port: number, org: string): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { 'X-Org': org } })
  socket.on('error', () => {})
  onTestFinished(() => socket.terminate())
  await once(socket, 'open')
  return socket
}
