import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { newProxyWire } from './wire-client.ts'

const HEAD_MS = 4500
const SWEEP_MS = 1000

test('a head behind a request has its whole time, whenever it begins between two sweeps', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { client, accepted } = await connected()
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(client, 'data')
  vi.advanceTimersByTime(SWEEP_MS - 1)
  const half = 'GET / HTTP/1.1\r\n'
  const before = accepted.bytesRead
  client.write(half)
  await until(() => accepted.bytesRead === before + half.length)
  vi.advanceTimersByTime(HEAD_MS)
  expect(accepted.writableEnded).toBe(false)
  vi.advanceTimersByTime(2 * SWEEP_MS)
  expect(accepted.writableEnded).toBe(true)
})

test('what is handed over stays as it came, though it is read later', async () => {
  // A stream that does not flow keeps what it is given back.
  const { client, accepted } = await connected((socket) => void socket.pause())
  const bytes = 'GET / HTTP/1.0\r\n\r\n'
  client.write(bytes)
  await until(() => accepted.readableLength === bytes.length)
  expect(String(accepted.read())).toBe(bytes)
})

/** A connection of a wire that responds to every plain request. */
async function connected(handOver: (socket: Socket) => void = () => expect.unreachable()): Promise<{ client: Socket; accepted: Socket }> {
  const timeouts = { keepAliveMs: 60_000, headersTimeoutMs: HEAD_MS, requestTimeoutMs: 60_000 }
  const wire = newProxyWire(timeouts, 0, {
    peerOf: () => ({ address: '127.0.0.1', scheme: 'http', isTrusted: false }),
    isOwn: () => false,
    handle: (_request, downstream) => {
      downstream.head(200, undefined, { text: 'Content-Length: 0\r\n', hasDate: false, hasLength: true })
      downstream.end(undefined, [])
    },
    noteMalformed: () => {},
    handOver,
  })
  const server = createServer({ allowHalfOpen: true }, (socket) => wire.accept(socket)).listen(0, '127.0.0.1')
  const connection = once(server, 'connection')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [accepted] = (await connection) as [Socket]
  onTestFinished(() => {
    client.destroy()
    accepted.destroy()
    wire.close()
    server.close()
  })
  return { client, accepted }
}
