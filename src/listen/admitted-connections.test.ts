import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { HeldNow } from '../../test/support/service/held-now.ts'
import { until } from '../../test/support/until.ts'
import type { ConnectionKind } from './connection-slots.ts'
import { ConnectionShares, ConnectionSlots, newSharesBuffer, newSlotsBuffer } from './connection-slots.ts'
import { HttpListener } from './http-listener.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const WAIT = 'GET /wait HTTP/1.1\r\nHost: a\r\n\r\n'
const PROBE = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
const HALF = 'GET / HTTP/1.1\r\nHost: a\r\n'
const SLOW_BODY = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1'
const [CROWD, CROWD_OF_PROBES, NEWCOMER] = ['127.0.7.1', '127.0.8.1', '127.0.9.9']

describe.each([
  ['heads that are never whole', HALF],
  ['bodies that never end', SLOW_BODY],
])('when all slots are taken by %s', (_what, bytes) => {
  test('a client of another address gets that of the oldest', async () => {
    const { port, open } = await listening('main', 8)
    const crowd = await opened(8, () => [port, CROWD, bytes])
    expect(await answer(port, NEWCOMER)).toBe(200)
    await until(() => crowd[0]!.isClosed)
    expect(crowd.map(({ isClosed }) => isClosed)).toEqual([true, ...Array(7).fill(false)])
    expect(open()).toBe(8)
  })

  test('and each address has one, the oldest goes once it is a second old', async () => {
    const { port } = await listening('main', 8)
    const time = new HeldNow()
    const crowd = await opened(8, (i) => [port, `127.0.7.${i + 1}`, bytes])
    expect(await answer(port, NEWCOMER)).toBe(503)
    time.advance(1001)
    expect(await answer(port, NEWCOMER)).toBe(200)
    await until(() => crowd[0]!.isClosed)
    expect(crowd.filter(({ isClosed }) => isClosed)).toHaveLength(1)
  })
})

test('newcomers of one address do not cut one another, and who finds no slot is told so', async () => {
  const { port, open } = await listening('main', 8)
  const time = new HeldNow()
  const crowd = await opened(8, () => [port, CROWD, HALF])
  expect(await answer(port, CROWD)).toBe(503)
  expect(open()).toBe(8)
  time.advance(251)
  expect(await answer(port, CROWD)).toBe(200)
  await until(() => crowd[0]!.isClosed)
  expect(crowd.filter(({ isClosed }) => isClosed)).toHaveLength(1)
})

test('a client that is refused, and sends on, is not read for long', async () => {
  const { port, handled } = await listening('main', 1)
  await opened(1, () => [port, CROWD, WAIT])
  await until(() => handled() === 1)
  const client = begun(port, NEWCOMER, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n')
  let sent = 0
  for (let i = 0; i < 64; i++) client.socket.write(Buffer.alloc(1 << 20), (error) => void (error ? 0 : sent++))
  await until(() => client.isClosed)
  // What the system holds for both sides.
  expect(sent).toBeLessThan(32)
})

test('a request that is under way keeps its slot', async () => {
  const { port, handled } = await listening('main', 4)
  await opened(4, () => [port, CROWD, WAIT])
  await until(() => handled() === 4)
  expect(await answer(port, NEWCOMER)).toBe(503)
})

describe('of reserved slots', () => {
  test('one address has a quarter at most and those that are kept, and makes room for itself', async () => {
    const { port, open } = await listening('admin', 32)
    const time = new HeldNow()
    const crowd = await opened(20, () => [port, CROWD, HALF])
    await until(() => crowd.filter(({ isClosed }) => isClosed).length === 8)
    expect(crowd.map(({ received }) => received.slice(9, 12))).toEqual([...Array(12).fill(''), ...Array(8).fill('503')])
    expect(open()).toBe(8)
    expect(await answer(port, NEWCOMER)).toBe(200)
    expect(await answer(port, CROWD)).toBe(503)
    time.advance(251)
    expect(await answer(port, CROWD)).toBe(200)
  })

  test('an address whose requests have its part has its probes answered, and nothing else', async () => {
    const { port, handled } = await listening('admin', 32)
    await opened(8, () => [port, CROWD, WAIT])
    await until(() => handled() === 8)
    for (let i = 0; i < 5; i++) {
      expect(await answer(port, CROWD)).toBe(503)
      expect(await answer(port, CROWD, PROBE)).toBe(200)
    }
    expect(await answer(port, NEWCOMER)).toBe(200)
  })

  test('an address makes room for another that shares its count', async () => {
    const { port, placeOf } = await listening('admin', 32)
    const [one, other] = sharingCount(placeOf)
    await opened(12, () => [port, one, HALF])
    const time = new HeldNow()
    time.advance(1001)
    expect(await answer(port, other)).toBe(200)
  })

  test('those that are kept are not held by clients that are refused there, and do not leave', async () => {
    const { port, handled } = await listening('admin', 32)
    await opened(28, (i) => [port, `127.0.7.${(i % 4) + 1}`, WAIT])
    await until(() => handled() === 28)
    const refused = await opened(6, () => [port, CROWD_OF_PROBES, GET], { allowHalfOpen: true })
    await until(() => refused.every(({ received }) => received.startsWith('HTTP/1.1 503 ')))
    expect(await answer(port, NEWCOMER, PROBE)).toBe(200)
    expect(handled()).toBe(29)
  })

  test('an eighth is kept for probes, even if all others serve requests', async () => {
    const { port, handled } = await listening('admin', 32)
    await opened(28, (i) => [port, `127.0.7.${(i % 4) + 1}`, WAIT])
    await until(() => handled() === 28)
    for (let i = 0; i < 5; i++) {
      expect(await answer(port, NEWCOMER, GET)).toBe(503)
      expect(await answer(port, NEWCOMER, PROBE)).toBe(200)
    }
    // Half heads do not keep those: a probe has that of the oldest.
    await opened(4, () => [port, CROWD_OF_PROBES, HALF])
    expect(await answer(port, NEWCOMER, PROBE)).toBe(200)
  })

  test('a hundred addresses with half heads take none from newcomers', async () => {
    const { port } = await listening('admin', 32)
    for (let i = 0; i < 20; i++) {
      await opened(10, (at) => [port, `127.0.7.${((i * 10 + at) % 100) + 1}`, HALF])
      expect(await answer(port, NEWCOMER)).toBe(200)
    }
  })
})

async function listening(kind: ConnectionKind, slots: number) {
  const own = new ConnectionSlots(newSlotsBuffer(1), 1, kind, slots)
  let handled = 0
  const listener = new HttpListener({
    timeouts: { keepAliveMs: 600_000, headersTimeoutMs: 600_000, requestTimeoutMs: 600_000 },
    handle: (req, res) => {
      handled++
      if (req.url === '/wait') return
      req.resume().once('end', () => res.end('hello'))
    },
    handleExpecting: () => {},
    isProbe: ({ url }) => url === '/livez',
    peers: 'remote',
    shares: new ConnectionShares(newSharesBuffer(1), 1),
    slots: own,
    onFull: () => {},
    onAcceptError: () => {},
  })
  const { port } = (await listener.listen({ port: 0, host: '127.0.0.1' }))!
  onTestFinished(() => listener.close(0))
  return { port, open: () => own.taken, handled: () => handled, placeOf: (address: string) => own.reserved!.placeOf(address) }
}

/** Two addresses that are counted together, of which there are some among a few hundred. */
function sharingCount(placeOf: (address: string) => number): [one: string, other: string] {
  const seen = new Map<number, string>()
  for (let i = 0; ; i++) {
    const address = `127.1.${i >> 8}.${i & 255}`
    const earlier = seen.get(placeOf(address))
    if (earlier !== undefined) return [earlier, address]
    seen.set(placeOf(address), address)
  }
}

interface Client {
  readonly socket: Socket
  received: string
  isClosed: boolean
}

/** Opens connections one after the other. The server has read what they sent. */
async function opened(
  count: number,
  of: (i: number) => readonly [port: number, address: string, bytes: string],
  options: { readonly allowHalfOpen?: boolean } = {},
): Promise<Client[]> {
  const clients: Client[] = []
  for (let i = 0; i < count; i++) {
    const client = begun(...of(i), options)
    clients.push(client)
    await until(() => client.isClosed || client.socket.bytesWritten > 0)
  }
  // One turn for each that has been written, in the process that reads it too.
  for (let i = 0; i < 20; i++) await new Promise(setImmediate)
  return clients
}

/** The status that a client gets. */
async function answer(port: number, address: string, request = GET): Promise<number> {
  const client = begun(port, address, request)
  await until(() => client.isClosed || client.received.includes('\r\n\r\n'))
  client.socket.destroy()
  return Number(client.received.split(' ')[1])
}

function begun(port: number, localAddress: string, bytes: string, options: { readonly allowHalfOpen?: boolean } = {}): Client {
  const client: Client = { socket: connect({ port, host: '127.0.0.1', localAddress, ...options }), received: '', isClosed: false }
  client.socket
    .on('error', () => {})
    .on('close', () => {
      client.isClosed = true
    })
    .on('data', (chunk: Buffer) => {
      client.received += chunk.toString('latin1')
    })
    .write(bytes)
  onTestFinished(() => void client.socket.destroy())
  return client
}
