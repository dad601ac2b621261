import { describe, expect, test } from 'vitest'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { heldTime } from '../../support/service/held-time.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** What no backend here answers. */
const WITNESS = '/witness'

/** A client that has half-closed is asked after some time, and then again, whether it is still there. */
const time = heldTime()
const STEP_MS = 50

describe('a client that half-closes after its request', () => {
  test.each([
    ['at once', 0],
    ['after it was asked twice whether it is still there', 2],
  ])('gets its answer, be it %s', async (_when, probes) => {
    let client: RawClient | undefined
    const backend = await HttpBackend.start(async (_req, res, seen) => {
      await seen.body()
      await until(() => {
        if (probes > 0) time.pass(STEP_MS)
        return statusesIn(client!.received).length >= probes
      })
      res.end('hello')
    })
    const edge = await proxying(backend)
    for (const request of [
      GET,
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody',
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n',
    ]) {
      client = RawClient.connect(edge.port)
      client.socket.end(request)
      const received = await client.closed()
      expect(statusesIn(received).filter((status) => status >= 200)).toEqual([200])
      expect(received).toContain('hello')
      expect(client.errorCode).toBeUndefined()
    }
    expect(backend.seen.map(({ isAborted }) => isAborted)).toEqual([false, false, false])
    expect(await edge.metric('edge_proxy_client_aborts_total')).toBe(0)
  })

  test('gets the answers to all that it has asked before, protocols that are not offered among it', async () => {
    const backend = await HttpBackend.start(async (req, res, seen) => {
      await until(() => client.socket.writableFinished)
      const body = await seen.body()
      res.end(`${req.url} ${body.toString()}.`)
    })
    const edge = await proxying(backend)
    const h2c = (path: string): string =>
      `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\nbody`
    const client = RawClient.connect(edge.port)
    client.socket.end(`${GET}${h2c('/1')}${h2c('/2')}${GET}`)
    const received = await client.closed()
    expect(received.match(/\/\d? (?:body)?\./g)).toEqual(['/ .', '/1 body.', '/2 body.', '/ .'])
    expect(client.errorCode).toBeUndefined()
  })

  test('by HTTP/1.0 gets its answer alone: nothing comes before it', async () => {
    const backend = await HttpBackend.start(async (req, res) => {
      if (req.url === WITNESS) return
      await untilAsked(edge)
      res.end('hello')
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.end('GET / HTTP/1.0\r\n\r\n')
    const received = await client.closed()
    expect(statusesIn(received)).toEqual([200])
    expect(received.endsWith('\r\n\r\nhello')).toBe(true)
  })

  test('gets a long answer whole, and a slow one', async () => {
    const LONG = 8_000_000
    const backend = await HttpBackend.start(async (req, res) => {
      if (req.url === '/long') return void res.end(Buffer.alloc(LONG))
      if (req.url === WITNESS) return
      for (let i = 0; i < 3; i++) {
        res.write('x')
        await untilAsked(edge)
      }
      res.end()
    })
    const edge = await proxying(backend)
    for (const [path, length] of [
      ['/long', LONG],
      ['/slow', 3],
    ] as const) {
      const client = RawClient.connect(edge.port)
      client.socket.end(`GET ${path} HTTP/1.0\r\n\r\n`)
      const received = await client.closed()
      expect([path, received.split('\r\n\r\n')[1]!.length]).toEqual([path, length])
    }
  })

  test('in the middle of its answer gets the rest', async () => {
    const half = 'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf'
    const backend = await RawBackend.start(({ socket }, index) => void socket.write(index === 0 ? half : ''))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.sees('half')
    client.socket.end()
    await untilAsked(edge)
    backend.connections[0]!.socket.write('rest')
    expect((await client.closed()).endsWith('halfrest')).toBe(true)
  })

  test('and pipelined gets all of its answers', async () => {
    const backend = await HttpBackend.start(async (req, res) => {
      // Long enough for it to be asked whether it is still there.
      if (req.url === '/1') await untilProbed(client)
      res.end(req.url)
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.end(['/1', '/2', '/3'].map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''))
    const received = await client.closed()
    expect(statusesIn(received).filter((status) => status >= 200)).toEqual([200, 200, 200])
    for (const path of ['/1', '/2', '/3']) expect(received).toContain(path)
  })

  test('gets a failure too', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.end(GET)
    await untilProbed(client)
    backend.connections[0]!.socket.resetAndDestroy()
    expect(statusesIn(await client.closed()).filter((status) => status >= 200)).toEqual([502])
  })

  test('in the middle of its upload has gone away', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf')
    await until(() => backend.received.endsWith('half'))
    client.socket.end()
    await until(() => backend.openConnections === 0)
    await client.closed()
    expect(statusesIn(client.received).filter((status) => status !== 400)).toEqual([])
  })

  test('in the middle of its head has asked nothing', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.end('GET / HTTP/1.1\r\nHost: a\r\n')
    await client.closed()
    expect((await edge.get('/livez')).status).toBe(200)
    expect(backend.connections).toEqual([])
  })

  test('and the backend half-closes after its answer: that is no trouble', async () => {
    const backend = await RawBackend.start(({ socket }) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.socket.end(GET)
    expect((await client.closed()).endsWith('\r\n\r\nok')).toBe(true)
  })
})

async function untilProbed(client: RawClient): Promise<void> {
  await until(() => {
    time.pass(STEP_MS)
    return client.received.includes(' 100 ')
  })
}

/** Waits until somebody who half-closed only now was asked twice whether he is still there: others who did were, too, if they can be. */
async function untilAsked(edge: Edge): Promise<void> {
  const witness = RawClient.connect(edge.port)
  witness.socket.end(`GET ${WITNESS} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await until(() => {
    time.pass(STEP_MS)
    return statusesIn(witness.received).length === 2
  })
  witness.socket.destroy()
}
