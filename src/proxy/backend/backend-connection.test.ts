import { createServer, Socket } from 'node:net'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type ConnectionPlaces, ConnectionSlots, newSlotsBuffer } from '../../listen/connection-slots.ts'
import { BackendSlots, newBackendsBuffer } from '../backends/backend-slots.ts'
import { Backend, type ConnectionSeeker } from './backend.ts'
import { BackendCall, type BackendHandler, type BackendRequest } from './backend-call.ts'
import type { BackendConnection } from './backend-connection.ts'

const GET: BackendRequest = { method: 'GET', head: 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', body: undefined, isUpgrade: false, isRouted: false }
const nothing = (): void => {}

test.each([
  ['with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'],
  ['that ends with its connection', 'HTTP/1.1 200 OK\r\n\r\nok'],
])("a mistake of ours at the end of an answer %s is told as ours, not as the backend's", async (_, answer) => {
  const { backend, open } = await backendBefore((socket) => socket.end(answer))
  const mistake = new TypeError('a mistake')
  const told = await new Promise((resolve) => {
    const onEnd = (): void => {
      throw mistake
    }
    new BackendCall(handlerWith({ onEnd, onFailure: resolve, onBroken: resolve })).send(backend, GET)
  })
  expect(told).toBe(mistake)
  expect(open.connections).toBe(0)
})

test('a large body is written as it is, behind its head: while a slow backend takes it, no copy waits beside it', async () => {
  const sent = vi.spyOn(Socket.prototype, 'write')
  onTestFinished(() => void sent.mockRestore())
  const body = Buffer.from('0123456789abcdef'.repeat(64 * 1024))
  const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`
  const { backend } = await backendBefore((socket) => {
    let received = ''
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1')
      if (received.length < head.length + body.length) return
      socket.end(`HTTP/1.1 ${received === head + body.toString('latin1') ? 200 : 400} Read\r\nContent-Length: 0\r\n\r\n`)
    })
  })
  const status = await new Promise((resolve) => {
    const handler = handlerWith({ onHead: (response) => resolve(response.status), onFailure: resolve, onBroken: resolve })
    new BackendCall(handler).send(backend, { ...GET, method: 'POST', head, body: [body.subarray(0, 100), body.subarray(100)] })
  })
  expect(status).toBe(200)
  const written = sent.mock.calls.flatMap(([bytes]) => (Buffer.isBuffer(bytes) && bytes.buffer === body.buffer ? [bytes.length] : []))
  expect(written).toEqual([100, body.length - 100])
})

test('a backend that hangs has its own places: its next call finds none, and another backend answers', async () => {
  const slots = new BackendSlots(newBackendsBuffer(1), 1)
  const url = new URL('http://backend.example')
  const numbers = slots.claim(
    [
      { name: 'hung', url },
      { name: 'well', url },
    ],
    0,
  )
  const [hung, well] = await Promise.all([
    backendBefore(nothing, slots.placesOf(numbers.get('hung')!, 1), 1),
    backendBefore((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'), slots.placesOf(numbers.get('well')!, 1)),
  ])
  const call = ({ backend }: { backend: Backend }): Promise<unknown> =>
    new Promise((resolve) => {
      const handler = handlerWith({ onHead: ({ status }) => resolve(status), onFailure: ({ code }) => resolve(code), onBroken: resolve })
      new BackendCall(handler).send(backend, GET)
    })
  void call(hung)
  expect(await Promise.all([call(hung), call(well)])).toEqual(['backend_busy', 200])
})

describe('a connection that another worker waits for', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
  })

  test('is given up by a worker that is never idle and lets nobody wait, when its turn is over', async () => {
    const { holder, waiter, connection } = await twoWorkers(1000)
    const given = waitFor(waiter)
    const next = { connection, isGiven: true }
    const onGiven = (it: BackendConnection): void => void Object.assign(next, { connection: it, isGiven: true })
    for (let ms = 0; ms < 400; ms += 20) {
      vi.advanceTimersByTime(20)
      if (!next.isGiven) continue
      next.isGiven = false
      holder.giveBack(next.connection)
      holder.connect(seekerWith({ onGiven }))
    }
    expect(given.outcome).toBe('given')
  })

  test.each([100, 1000])('is given up while it rests, before a call that may wait for %i ms is refused', async (queueMs) => {
    const { holder, waiter, connection } = await twoWorkers(queueMs)
    holder.giveBack(connection)
    const given = waitFor(waiter)
    vi.advanceTimersByTime(queueMs)
    expect(given.outcome).toBe('given')
  })

  /** Two workers that share one connection, which the first one has. */
  async function twoWorkers(queueMs: number): Promise<{ holder: Backend; waiter: Backend; connection: BackendConnection }> {
    const buffer = newSlotsBuffer(2)
    const { backend: holder } = await backendBefore(nothing, new ConnectionSlots(buffer, 1, 'backend', 1), queueMs)
    const { backend: waiter } = await backendBefore(nothing, new ConnectionSlots(buffer, 2, 'backend', 1), queueMs)
    const connection = await new Promise<BackendConnection>((resolve) => {
      let given: BackendConnection
      const onGiven = (it: BackendConnection): void => {
        given = it
      }
      holder.connect(seekerWith({ onGiven, onConnected: () => resolve(given) }))
    })
    return { holder, waiter, connection }
  }

  function waitFor(backend: Backend): { outcome: string } {
    const seen = { outcome: 'waiting' }
    const become = (outcome: string) => (): void => {
      seen.outcome = outcome
    }
    backend.connect(seekerWith({ onGiven: become('given'), onNoRoom: become('refused') }))
    return seen
  }

  function seekerWith(callbacks: Partial<ConnectionSeeker>): ConnectionSeeker {
    return { needsFresh: false, isUpgrade: false, isSent: false, ...callbacks } as unknown as ConnectionSeeker
  }
})

/** A backend that does this with each connection, for as long as the test runs. */
async function backendBefore(
  onConnection: (socket: Socket) => void,
  places: ConnectionPlaces = new ConnectionSlots(newSlotsBuffer(1), 1, 'backend', 9),
  queueMs = 1000,
): Promise<{ backend: Backend; open: { connections: number } }> {
  const server = createServer((socket) => onConnection(socket.on('error', nothing)))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as { port: number }
  const url = new URL(`http://127.0.0.1:${port}`)
  const open = { connections: -1 }
  const options = { url, connectTimeoutMs: 1000, headersTimeoutMs: 1000, idleTimeoutMs: 1000, queueMs }
  const onOpenConnections = (count: number): void => {
    open.connections = count
  }
  const listener = { onOpenConnections, onQueueLength: nothing, onQueueWait: nothing }
  const backend = new Backend(options, places, listener)
  onTestFinished(() => backend.close())
  return { backend, open }
}

function handlerWith(callbacks: Partial<BackendHandler>): BackendHandler {
  return {
    onReady: nothing,
    onDrain: nothing,
    onBodyWritten: nothing,
    onQuiet: nothing,
    onDone: nothing,
    onUpgraded: nothing,
    onRetry: nothing,
    onInterim: nothing,
    onHead: nothing,
    relaysChunks: () => false,
    onData: nothing,
    onEnd: nothing,
    onFailure: nothing,
    onBroken: nothing,
    ...callbacks,
  }
}
