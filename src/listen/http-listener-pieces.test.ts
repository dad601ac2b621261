import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { RawClient, statusesIn } from '../../test/support/proxy/proxy.ts'
import { TlsClient } from '../../test/support/tls/tls-client.ts'
import { ownPair } from '../../test/support/tls/tls-edge.ts'
import { until } from '../../test/support/until.ts'
import { TimeShare } from '../time/slices.ts'
import { readInPieces } from './http-listener.ts'
import { RequestTurns } from './node-http/request-turns.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const REQUESTS = 300

test('what waits behind a paused connection is not parsed, and all of it is served in the end', async () => {
  const turns = new RequestTurns()
  let [parsed, isAnswering]: [parsed: number, isAnswering: boolean] = [0, false]
  const open: ServerResponse[] = []
  const port = await serving((req, res) => {
    parsed++
    turns.take(req, res, () => void (isAnswering ? res.end() : open.push(res)))
  })
  const client = RawClient.connect(port)
  client.send(GET.repeat(REQUESTS))
  await until(() => parsed > 0)
  for (let i = 0; i < 100; i++) await turn()
  // Sixteen may wait, and those that came in one piece with the last of them.
  expect(parsed).toBeLessThanOrEqual(2 + 16 + 1024 / GET.length)
  isAnswering = true
  open[0]!.end()
  await until(() => statusesIn(client.received).length === REQUESTS)
  expect(parsed).toBe(REQUESTS)
})

test('a body comes whole, and so does the end of a connection', async () => {
  const numbers = Array.from({ length: 5000 }, (_, i) => i).join()
  let isWhole = false
  const port = await serving(async (req, res) => {
    if (req.method === 'POST') isWhole = (await text(req)) === numbers
    res.end()
  })
  const client = RawClient.connect(port)
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${numbers.length}\r\n\r\n${numbers}${GET}`)
  client.socket.end()
  expect(statusesIn(await client.closed())).toEqual([200, 200])
  expect(isWhole).toBe(true)
})

test('nothing is parsed while parsing has no share of the time left, and all of it later', async () => {
  const share = plenty()
  const spend = vi.spyOn(share, 'spend')
  const waitMs = vi.spyOn(share, 'waitMs').mockReturnValue(5)
  let parsed = 0
  const port = await serving((_req, res) => {
    parsed++
    res.end()
  }, share)
  const client = RawClient.connect(port)
  client.send(GET.repeat(200))
  await until(() => waitMs.mock.calls.length > 3)
  expect([parsed, spend.mock.calls.length]).toEqual([0, 0])
  waitMs.mockRestore()
  await until(() => statusesIn(client.received).length === 200)
  // A piece each.
  expect(spend.mock.calls.length).toBeGreaterThanOrEqual((200 * GET.length) / 1024)
})

test('over TLS, where many records are decrypted at once, nothing is lost or out of order, the end of the connection included', async () => {
  const { cert, key } = await ownPair()
  const asked: (string | undefined)[] = []
  const server = createTlsServer({ cert, key }, (req, res) => {
    asked.push(req.url)
    res.end()
  })
  ;(server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
  const port = await listening(server, 'secureConnection')
  const client = await TlsClient.connected(port)
  const paths = Array.from({ length: 2000 }, (_, i) => `/${i}`)
  client.send(paths.map((path) => GET.replace('/', path)).join(''))
  client.socket.end()
  expect(statusesIn(await client.closed()).length).toBe(paths.length)
  expect(asked).toEqual(paths)
})

function plenty(): TimeShare {
  return new TimeShare(1, 1e9, performance.now())
}

async function serving(handle: (req: IncomingMessage, res: ServerResponse) => void, share = plenty()): Promise<number> {
  const server = createServer(handle)
  ;(server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
  return listening(server, 'connection', share)
}

async function listening(server: Server, event: 'connection' | 'secureConnection', share = plenty()): Promise<number> {
  server.on(event, (socket: Socket) => {
    socket.allowHalfOpen = true
    readInPieces(socket, { bytes: 1024, share })
  })
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
