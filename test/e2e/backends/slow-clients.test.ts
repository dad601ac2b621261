import { describe, expect, test } from 'vitest'
import { RawBackend } from '../../support/proxy/backend.ts'
import { RawClient, statusesIn } from '../../support/proxy/proxy.ts'
import { named, routing } from '../../support/proxy/routed.ts'
import { OK } from '../../support/proxy/stale-connection.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { until } from '../../support/until.ts'

const ROUTE = { backends: [{ name: 'a' }], fallback: [{ name: 'b' }] }
const FAILED = 'HTTP/1.1 503 No\r\nRetry-After: 300\r\nContent-Length: 0\r\n\r\n'

/** Sends a request whose body stays incomplete. */
function beginUpload(port: number): RawClient {
  const client = RawClient.connect(port)
  client.send('POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234')
  return client
}

describe('clients that send slowly', () => {
  test('connections that a backend closes in the middle of uploads do not cool it', async () => {
    const a = await RawBackend.start(
      ({ socket, received }) => void (received.startsWith('POST') ? socket.resetAndDestroy() : socket.write(OK)),
    )
    const b = await named('b')
    const edge = await routing({ a, b }, [ROUTE])
    for (let i = 0; i < 4; i++) {
      const client = beginUpload(edge.port)
      await until(() => statusesIn(client.received).length === 1)
      expect(statusesIn(client.received)).toEqual([502])
    }
    expect((await fetch(`http://127.0.0.1:${edge.port}/x`)).status).toBe(200)
    expect([a.heads, b.seen.length]).toEqual([5, 0])
  })

  test('a probe whose client has not sent its body keeps nobody from trying; once it is sent, others wait for its answer', async () => {
    let isDown = true
    const script: Parameters<typeof RawBackend.start>[0] = ({ socket, received }) => {
      if (!received.includes('/slow')) socket.write(isDown ? FAILED : OK)
    }
    const [a, b] = [await RawBackend.start(script), await RawBackend.start(script)]
    const edge = await routing({ a, b }, [{ ...ROUTE, retry: { on: ['5xx'] } }], { clock: new ManualClock() })
    const ask = async (): Promise<string> => {
      const { status, headers } = await fetch(`http://127.0.0.1:${edge.port}/x`)
      return headers.get('x-edge-reason') ?? `${status} of a backend`
    }
    for (let i = 0; i < 3; i++) expect(await ask()).toBe('503 of a backend')
    beginUpload(edge.port)
    await until(() => a.heads + b.heads === 7)
    expect(await ask()).toBe('503 of a backend')
    const sent: RawClient[] = []
    await until(async () => {
      const { received } = a
      const client = beginUpload(edge.port)
      client.send('56789')
      sent.push(client)
      await until(() => client.received !== '' || a.received.length >= received.length + '0123456789'.length)
      return (await ask()) === 'backends_cooling'
    })
    isDown = false
    for (const { socket } of sent) socket.destroy()
    await until(async () => (await ask()) === '200 of a backend')
  })
})
