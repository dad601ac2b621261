import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { ConnectionShares, ConnectionSlots, newSharesBuffer, newSlotsBuffer } from './connection-slots.ts'
import { HttpListener } from './http-listener.ts'

/** More than the system takes on both sides for a client that does not read. */
const BODY = Buffer.alloc(20_000_000)
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

test('a client that reads slowly gets all of its response, though the server closes meanwhile', async () => {
  const { listener, client, received } = await slowClient(9)
  const closed = listener.close(600_000)
  client.resume()
  await closed
  await until(() => client.destroyed)
  expect(received()).toBeGreaterThan(BODY.length)
})

test('and though another client wants its slot', async () => {
  const { listener, port, client, received } = await slowClient(1)
  const other = connect(port, '127.0.0.1')
  onTestFinished(() => void other.destroy())
  let answer = ''
  other
    .on('error', () => {})
    .on('data', (chunk: Buffer) => {
      answer += chunk.toString()
    })
  other.write(GET)
  await until(() => answer.includes('too_many_connections'))
  client.resume()
  await until(() => received() > BODY.length)
  await listener.close(0)
})

interface SlowClient {
  readonly listener: HttpListener
  readonly port: number
  readonly client: ReturnType<typeof connect>
  readonly received: () => number
}

/** Has asked, and does not read the response yet. */
async function slowClient(slots: number): Promise<SlowClient> {
  let isEnded = false
  const listener = new HttpListener({
    timeouts: { keepAliveMs: 60_000, headersTimeoutMs: 60_000, requestTimeoutMs: 60_000 },
    handle: (_req, res) => {
      res.setHeader('Content-Length', BODY.length).end(BODY)
      isEnded = true
    },
    handleExpecting: () => {},
    peers: 'remote',
    shares: new ConnectionShares(newSharesBuffer(1), 1),
    slots: new ConnectionSlots(newSlotsBuffer(1), 1, 'main', slots),
    onFull: () => {},
    onAcceptError: () => {},
  })
  const { port } = (await listener.listen({ port: 0, host: '127.0.0.1' }))!
  onTestFinished(() => listener.close(0))
  const client = connect(port, '127.0.0.1')
  onTestFinished(() => void client.destroy())
  let received = 0
  client.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  client.pause()
  client.write(GET)
  await until(() => isEnded)
  return { listener, port, client, received: () => received }
}
