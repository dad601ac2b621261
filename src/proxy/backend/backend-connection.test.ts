import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { ConnectionPlaces, newPlacesBuffer } from '../../listen/connection-places.ts'
import { Backend } from './backend.ts'
import { BackendCall, type BackendHandler } from './backend-call.ts'

const nothing = (): void => {}

test.each([
  ['with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'],
  ['that ends with its connection', 'HTTP/1.1 200 OK\r\n\r\nok'],
])("a mistake of ours at the end of an answer %s is told as ours, not as the backend's", async (_, answer) => {
  const server = createServer((socket) => void socket.on('error', nothing).end(answer))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as { port: number }
  const url = new URL(`http://127.0.0.1:${port}`)
  let openConnections = -1
  const options = { url, connectTimeoutMs: 1000, headersTimeoutMs: 1000, idleTimeoutMs: 1000, queueMs: 1000 }
  const backend = new Backend(options, new ConnectionPlaces(newPlacesBuffer(1), 1, 'backend', 9), {
    onOpenConnections: (count) => {
      openConnections = count
    },
    onQueueLength: nothing,
    onQueueWait: nothing,
  })
  onTestFinished(() => backend.close())
  const mistake = new TypeError('a mistake')
  const told = await new Promise((resolve) => {
    const handler: BackendHandler = {
      onReady: nothing,
      onDrain: nothing,
      onQuiet: nothing,
      onDone: nothing,
      onUpgraded: nothing,
      onRetry: nothing,
      onInterim: nothing,
      onHead: nothing,
      relaysChunks: () => false,
      onData: nothing,
      onEnd: () => {
        throw mistake
      },
      onFailure: resolve,
      onBroken: resolve,
    }
    const request = { method: 'GET', head: 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', body: undefined, isUpgrade: false }
    new BackendCall(backend, handler).send(request)
  })
  expect(told).toBe(mistake)
  expect(openConnections).toBe(0)
})
