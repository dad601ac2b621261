import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { expectAborted } from '../../support/proxy/aborted-call.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient } from '../../support/proxy/proxy.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

/** `destroy` is what a process does that ends or gives up: its kernel says FIN; `resetAndDestroy` says RST. */
const WAYS = ['destroy', 'resetAndDestroy'] as const

describe.each(WAYS)('a client that goes away (%s)', (leave) => {
  test('while the backend thinks: its call is broken off', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await until(() => backend.heads === 1)
    client.socket[leave]()
    await expectAborted(edge, backend)
  })

  test('while its upload is on its way', async () => {
    for (const framing of ['Content-Length: 100\r\n\r\nhalf', 'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n']) {
      const backend = await RawBackend.start(() => {})
      const edge = await proxying(backend)
      const client = RawClient.connect(edge.port)
      client.send(`POST / HTTP/1.1\r\nHost: a\r\n${framing}`)
      await until(() => backend.received.includes('half'))
      client.socket[leave]()
      await expectAborted(edge, backend)
      expect(backend.received).not.toContain('\r\n0\r\n')
    }
  })

  test('in the middle of an answer that goes on', async () => {
    const backend = await HttpBackend.start(async (_req, res) => {
      while (!res.destroyed) {
        res.write('more')
        await sleep(5)
      }
    })
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.sees('more')
    client.socket[leave]()
    await until(() => backend.only.isAborted)
    await expectAborted(edge, backend)
  })

  test('and had pipelined: its call is broken off, and what waited is never begun', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(GET.repeat(3))
    await until(() => backend.heads === 1)
    client.socket[leave]()
    await until(() => backend.openConnections === 0)
    expect(await edge.metric('edge_proxy_open_requests')).toBe(0)
    expect(await edge.metric('edge_proxy_client_aborts_total')).toBe(1)
    expect(backend.heads).toBe(1)
  })
})

describe('a client that went away', () => {
  test('has paid: plain buckets stay spent', async () => {
    const backend = await RawBackend.start(() => {})
    const edge = await proxying(backend, { clock: new ManualClock(), bundle: bundle(1, policy('p', { rules: [bucketRule('r', [], 1)] })) })
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await until(() => backend.heads === 1)
    client.socket.resetAndDestroy()
    await until(() => backend.openConnections === 0)
    expect((await edge.get('/')).status).toBe(429)
  })

  test('takes no other call with it, and its connection to the backend is not used again', async () => {
    const backend = await HttpBackend.start(async (req, res) => {
      if (req.url === '/slow') await until(() => isReleased || res.destroyed)
      res.end(req.url)
    })
    let isReleased = false
    const edge = await proxying(backend)
    const gone = RawClient.connect(edge.port)
    gone.send('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => backend.seen.length === 1)
    const other = edge.get('/slow')
    await until(() => backend.seen.length === 2)
    gone.socket.resetAndDestroy()
    await until(() => backend.seen[0]!.isAborted)
    isReleased = true
    expect((await other).body).toBe('/slow')
    expect((await edge.get('/next')).body).toBe('/next')
    expect(backend.seen[2]!.connection).toBe(backend.seen[1]!.connection)
  })

  test('after its whole answer did not go away: nothing is counted', async () => {
    const backend = await HttpBackend.start()
    const edge = await proxying(backend)
    const client = RawClient.connect(edge.port)
    client.send(GET)
    await client.next()
    client.socket.resetAndDestroy()
    await until(() => client.isClosed)
    expect(await edge.metric('edge_proxy_client_aborts_total')).toBe(0)
    expect(backend.openConnections).toBe(1)
  })
})
