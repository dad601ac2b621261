import { expect, test } from 'vitest'
import { largeBodySuite, proxySuite } from '../../support/proxy/large-bodies.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import { metric } from '../../support/service/metrics.ts'
import { describeWithProc, untilCalm } from '../../support/service/process-facts.ts'
import { until } from '../../support/until.ts'

const PIECE = Buffer.alloc(1 << 20, 'x')
const PIECES = 32
const CLIENTS = 20
const GIBIBYTE = 1 << 30

// 1 GiB each: test/campaigns/proxy-memory.test.ts
largeBodySuite(128, 80)

describeWithProc('who does not read', () => {
  const proxy = proxySuite(80)

  test('a backend that takes nothing holds its clients back, not their bytes', async () => {
    proxy.backend = (socket) => void socket.pause()
    const clients = Array.from({ length: CLIENTS }, () => RawClient.connect(proxy.cli.port))
    for (const client of clients) {
      client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${GIBIBYTE}\r\n\r\n`)
      for (let sent = 0; sent < PIECES; sent++) client.socket.write(PIECE)
    }
    await until(async () => (await metric(proxy.cli.port, 'edge_proxy_open_requests')) === CLIENTS)
    await untilCalm(proxy.cli)
    expect(clients.filter(({ socket }) => socket.writableLength === 0)).toEqual([])
    await proxy.expectBounded()
  })

  test('clients that take nothing hold their backend back, not its bytes', async () => {
    const held: { readonly writableLength: number }[] = []
    proxy.backend = (socket) => {
      held.push(socket)
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${GIBIBYTE}\r\n\r\n`)
        for (let sent = 0; sent < PIECES; sent++) socket.write(PIECE)
      })
    }
    for (let i = 0; i < CLIENTS; i++) {
      const client = RawClient.connect(proxy.cli.port)
      client.socket.pause()
      client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    }
    await until(async () => (await metric(proxy.cli.port, 'edge_backend_responses_total{status="2xx"}')) === CLIENTS)
    await untilCalm(proxy.cli)
    expect(held.filter(({ writableLength }) => writableLength > 0)).toHaveLength(CLIENTS)
    await proxy.expectBounded()
  })
})
