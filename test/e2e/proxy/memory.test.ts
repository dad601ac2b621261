import { readFile, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { proxyEnv, RawClient } from '../../support/proxy/proxy.ts'
import type { Cli } from '../../support/service/cli.ts'
import { ask } from '../../support/service/http.ts'
import { scratchDirectory, serving } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

const GIBIBYTE = 1 << 30
const PIECE = Buffer.alloc(1 << 20, 'x')
/** What a body may add to the memory of the process, whatever its size. */
const ALLOWED_KIB = 128 * 1024

describe('a body of 1 GiB passes in constant memory', () => {
  test.each(['by its length', 'in chunks'])(
    'up, %s',
    async (framing) => {
      let received = 0
      const backend = await listen((socket) => {
        let head = ''
        socket.on('data', (chunk: Buffer) => {
          if (head.endsWith('\r\n\r\n')) received += chunk.length
          else {
            const end = chunk.indexOf('\r\n\r\n')
            head += chunk.toString('latin1', 0, end < 0 ? chunk.length : end + 4)
            if (end >= 0) received += chunk.length - end - 4
          }
          if (received >= GIBIBYTE && chunk.subarray(-5).toString('latin1') === (framing === 'in chunks' ? '0\r\n\r\n' : 'xxxxx')) {
            socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
          }
        })
      })
      const cli = await serve(backend)
      const before = await peakKib(cli)
      const client = RawClient.connect(cli.port)
      const isChunked = framing === 'in chunks'
      client.send(
        `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${GIBIBYTE}`}\r\n\r\n`,
      )
      for (let sent = 0; sent < GIBIBYTE; sent += PIECE.length) {
        if (isChunked) client.socket.write('100000\r\n')
        const hasRoom = client.socket.write(PIECE)
        if (isChunked) client.socket.write('\r\n')
        if (!hasRoom) await new Promise((resolve) => client.socket.once('drain', resolve))
      }
      if (isChunked) client.send('0\r\n\r\n')
      await client.sees('ok')
      expect(received).toBeGreaterThanOrEqual(GIBIBYTE)
      expect((await peakKib(cli)) - before).toBeLessThan(ALLOWED_KIB)
    },
    60_000,
  )

  test.each(['by its length', 'in chunks', 'to its end'])(
    'down, %s',
    async (framing) => {
      const isChunked = framing === 'in chunks'
      const length = framing === 'by its length' ? `Content-Length: ${GIBIBYTE}\r\n` : ''
      const backend = await listen((socket) => {
        socket.once('data', async () => {
          socket.write(`HTTP/1.1 200 OK\r\n${isChunked ? 'Transfer-Encoding: chunked\r\n' : length}\r\n`)
          for (let sent = 0; sent < GIBIBYTE; sent += PIECE.length) {
            if (isChunked) socket.write('100000\r\n')
            const hasRoom = socket.write(PIECE)
            if (isChunked) socket.write('\r\n')
            if (!hasRoom) await new Promise((resolve) => socket.once('drain', resolve))
          }
          socket.end(isChunked ? '0\r\n\r\n' : '')
        })
      })
      const cli = await serve(backend)
      const before = await peakKib(cli)
      const client = RawClient.connect(cli.port)
      let received = 0
      client.socket.removeAllListeners('data')
      client.socket.on('data', (chunk: Buffer) => {
        received += chunk.length
      })
      client.send('GET / HTTP/1.0\r\n\r\n')
      await until(() => client.isClosed)
      expect(client.errorCode).toBeUndefined()
      expect(received).toBeGreaterThanOrEqual(GIBIBYTE)
      expect((await peakKib(cli)) - before).toBeLessThan(ALLOWED_KIB)
    },
    60_000,
  )
})

describe('who does not read', () => {
  test('a backend that takes nothing holds its clients back, not their bytes', async () => {
    const backend = await listen((socket) => void socket.pause())
    const cli = await serve(backend)
    const before = await peakKib(cli)
    for (let i = 0; i < 20; i++) {
      const client = RawClient.connect(cli.port)
      client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${GIBIBYTE}\r\n\r\n`)
      for (let sent = 0; sent < 32; sent++) client.socket.write(PIECE)
    }
    await until(async () => (await metric(cli, 'edge_proxy_open_requests')) === 20)
    await untilCalm(cli)
    expect((await peakKib(cli)) - before).toBeLessThan(ALLOWED_KIB)
  })

  test('clients that take nothing hold their backend back, not its bytes', async () => {
    const backend = await listen((socket) => {
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${GIBIBYTE}\r\n\r\n`)
        for (let sent = 0; sent < 32; sent++) socket.write(PIECE)
      })
    })
    const cli = await serve(backend)
    const before = await peakKib(cli)
    for (let i = 0; i < 20; i++) {
      const client = RawClient.connect(cli.port)
      client.socket.pause()
      client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    }
    await until(async () => (await metric(cli, 'edge_backend_responses_total{status="2xx"}')) === 20)
    await untilCalm(cli)
    expect((await peakKib(cli)) - before).toBeLessThan(ALLOWED_KIB)
  })
})

/** A backend that speaks in bytes and keeps none. */
async function listen(onConnection: Parameters<typeof createServer>[1] & {}): Promise<{ readonly url: string }> {
  const sockets = new Set<{ destroy(): unknown }>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  })
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}` }
}

async function serve(backend: { readonly url: string }): Promise<Cli> {
  const path = join(await scratchDirectory(), 'bundle.json')
  await writeFile(path, JSON.stringify(bundle(1)))
  const cli = await serving({ ...proxyEnv(backend.url), EDGE_CONFIG_FILE: path, EDGE_STORE_SIZE: '1m' })
  // What a process needs for its first requests is not the body's.
  for (let i = 0; i < 20; i++) await ask(cli.port, 'GET', '/metrics')
  return cli
}

/** The most memory that the process has had so far. */
async function peakKib(cli: Cli): Promise<number> {
  const status = await readFile(`/proc/${cli.process.pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)![1])
}

async function metric(cli: Cli, series: string): Promise<number> {
  const { body } = await ask(cli.port, 'GET', '/metrics')
  return Number(
    body
      .split('\n')
      .find((line) => line.startsWith(`${series} `))
      ?.slice(series.length) ?? 0,
  )
}

/** Waits until nothing moves any more: the process has used no processor time for a while. */
async function untilCalm(cli: Cli): Promise<void> {
  let [last, unchanged] = ['', 0]
  await until(async () => {
    const ticks = (await readFile(`/proc/${cli.process.pid}/stat`, 'utf8')).split(' ').slice(13, 15).join(' ')
    unchanged = ticks === last ? unchanged + 1 : 0
    last = ticks
    return unchanged >= 20
  })
}
