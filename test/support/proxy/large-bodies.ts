import { createServer, type Socket } from 'node:net'
import { beforeAll, expect, test } from 'vitest'
import type { Cli } from '../service/cli.ts'
import { metric } from '../service/metrics.ts'
import { describeWithProc, memoryKib, untilCalm } from '../service/process-facts.ts'
import type { Owner } from '../service/running.ts'
import { thisSuite } from '../service/suite-owner.ts'
import { RawClient, servingProxy } from './proxy.ts'

const PIECE = Buffer.alloc(1 << 20, 'x')
const MIB = 1 << 20

/** What bodies of this size may add to the memory of a proxy that has served small ones. One process for all: the bound holds for their sum. */
export function largeBodySuite(bodyMib: number, allowedMib: number): void {
  const bytes = bodyMib * MIB

  describeWithProc(`a body of ${bodyMib} MiB passes in constant memory`, () => {
    const proxy = proxySuite(allowedMib)

    test.each(['by its length', 'in chunks'])('up, %s', async (framing) => {
      const isChunked = framing === 'in chunks'
      let received = 0
      proxy.backend = (socket) => {
        let head = ''
        socket.on('data', (chunk: Buffer) => {
          if (head.endsWith('\r\n\r\n')) received += chunk.length
          else {
            const end = chunk.indexOf('\r\n\r\n')
            head += chunk.toString('latin1', 0, end < 0 ? chunk.length : end + 4)
            if (end >= 0) received += chunk.length - end - 4
          }
          if (received >= bytes && chunk.subarray(-5).toString('latin1') === (isChunked ? '0\r\n\r\n' : 'xxxxx')) {
            socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok')
          }
        })
      }
      const client = RawClient.connect(proxy.cli.port)
      const size = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes}`
      client.send(`POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${size}\r\n\r\n`)
      await writeBody(client.socket, bytes, isChunked)
      if (isChunked) client.send('0\r\n\r\n')
      await client.sees('ok')
      expect(received).toBeGreaterThanOrEqual(bytes)
      await proxy.expectBounded()
    })

    test.each(['by its length', 'in chunks', 'to its end'])('down, %s', async (framing) => {
      const isChunked = framing === 'in chunks'
      const size = isChunked ? 'Transfer-Encoding: chunked\r\n' : framing === 'by its length' ? `Content-Length: ${bytes}\r\n` : ''
      proxy.backend = (socket) => {
        socket.once('data', async () => {
          socket.write(`HTTP/1.1 200 OK\r\nConnection: close\r\n${size}\r\n`)
          await writeBody(socket, bytes, isChunked)
          socket.end(isChunked ? '0\r\n\r\n' : '')
        })
      }
      const client = RawClient.connect(proxy.cli.port)
      client.send('GET / HTTP/1.0\r\n\r\n')
      expect(await client.countsRest()).toBeGreaterThanOrEqual(bytes)
      expect(client.errorCode).toBeUndefined()
      await proxy.expectBounded()
    })
  })
}

export interface MeasuredProxy {
  readonly cli: Cli
  /** What the backend does with each new connection. */
  backend: (socket: Socket) => void
  /** The most that the process ever had is not much more than it had before. */
  expectBounded(): Promise<void>
}

/** One process for all tests of a `describe`. */
export function proxySuite(allowedMib: number): MeasuredProxy {
  const suite = thisSuite()
  let [cli, before]: [cli: Cli | undefined, before: number] = [undefined, 0]
  const proxy: MeasuredProxy = {
    get cli() {
      return cli!
    },
    backend: () => {},
    expectBounded: async () => expect((await memoryKib(cli!, 'VmHWM')) - before).toBeLessThan(allowedMib * 1024),
  }
  beforeAll(async () => {
    cli = await serve(await listen((socket) => proxy.backend(socket), suite), suite)
    before = await memoryKib(cli, 'VmHWM')
  })
  return proxy
}

/** A backend that speaks in bytes and keeps none. */
async function listen(onConnection: (socket: Socket) => void, owner: Owner): Promise<{ readonly url: string }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  })
  owner.onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}` }
}

async function serve(backend: { readonly url: string }, owner: Owner): Promise<Cli> {
  const cli = await servingProxy(backend, { EDGE_STORE_SIZE: '1m' }, owner)
  // What a process needs for its first requests is not the body's.
  for (let i = 0; i < 20; i++) await metric(cli.port, 'edge_proxy_open_requests')
  await untilCalm(cli)
  return cli
}

async function writeBody(socket: Socket, bytes: number, isChunked: boolean): Promise<void> {
  for (let sent = 0; sent < bytes; sent += PIECE.length) {
    if (isChunked) socket.write('100000\r\n')
    const hasRoom = socket.write(PIECE)
    if (isChunked) socket.write('\r\n')
    if (!hasRoom) await new Promise((resolve) => socket.once('drain', resolve))
  }
}
