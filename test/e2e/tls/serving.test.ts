import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { HttpBackend, RawBackend } from '../../support/proxy/backend.ts'
import { proxying } from '../../support/proxy/proxy.ts'
import { PROXY_WIRES } from '../../support/run/proxy-wire.ts'
import { running } from '../../support/service/running.ts'
import { decideAt, socketPath } from '../../support/service/unix-socket.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { ownPair, QUESTION, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

describe('decision_service', () => {
  test('answers questions over TLS, one after the other and pipelined', async () => {
    const edge = await running({ bundle: bundle(1), env: tlsEnv(await ownPair()) })
    const client = await TlsClient.connected(edge.port)
    expect([client.socket.getProtocol(), client.socket.alpnProtocol]).toEqual(['TLSv1.3', 'http/1.1'])
    expect(await client.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
    client.send(QUESTION.repeat(3))
    await until(() => client.received.split('HTTP/1.1 200').length === 5)
    // Node reads a question with a body, on the same connection.
    expect(await client.ask(QUESTION.replace('\r\n\r\n', '\r\nContent-Length: 1\r\n\r\na'))).toMatch(/^HTTP\/1.1 200 /)
    expect(await client.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
  })

  test('answers a client that offers HTTP/1.0 alone', async () => {
    const edge = await running({ bundle: bundle(1), env: tlsEnv(await ownPair()) })
    const client = await TlsClient.connected(edge.port, { ALPNProtocols: ['http/1.0'] })
    expect(client.socket.alpnProtocol).toBe('http/1.0')
    expect(await client.ask(QUESTION.replace('HTTP/1.1', 'HTTP/1.0'))).toMatch(/^HTTP\/1.1 200 /)
  })

  test('answers a client that closes its side after its question', async () => {
    const edge = await running({ bundle: bundle(1), env: tlsEnv(await ownPair()) })
    for (const question of [QUESTION, QUESTION.replace('\r\n\r\n', '\r\nContent-Length: 1\r\n\r\na')]) {
      const client = await TlsClient.connected(edge.port)
      client.socket.end(question)
      expect(await client.closed()).toMatch(/^HTTP\/1.1 200 /)
      expect([client.hasEnded, client.errorCode]).toEqual([true, undefined])
    }
  })

  test('stays plain on a unix socket', async () => {
    const path = await socketPath()
    await running({ bundle: bundle(1), env: { ...tlsEnv(await ownPair()), EDGE_SOCKET: path } })
    expect(await decideAt(path)).toBe(200)
  })
})

describe.each(PROXY_WIRES)('reverse_proxy on the wire %s', (wire) => {
  const SIZE = 3_000_000

  async function proxyingTls(backend: { readonly url: string }, env: Readonly<Record<string, string>> = {}) {
    return proxying(backend, { env: { ...tlsEnv(await ownPair()), EDGE_PROXY_WIRE: wire, ...env } })
  }

  test('forwards requests and responses of any size, and says that they came over https', async () => {
    const backend = await HttpBackend.start(async (_req, res, seen) => {
      const { length } = await seen.body()
      res.writeHead(200, { 'X-Length': length, 'Content-Length': SIZE })
      res.end(Buffer.alloc(SIZE, 'z'))
    })
    const edge = await proxyingTls(backend, { EDGE_TRUSTED_PROXIES: '192.0.2.1' })
    const client = await TlsClient.connected(edge.port)
    client.send(`POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: ${SIZE}\r\n\r\n${'b'.repeat(SIZE)}`)
    await until(() => client.received.endsWith('zzz') && client.received.length > SIZE)
    expect(client.received).toContain(`X-Length: ${SIZE}\r\n`)
    expect(backend.only.headers).toMatchObject({ 'x-forwarded-proto': 'https', 'x-forwarded-for': '127.0.0.1' })
    // Nobody who is not trusted can say otherwise.
    expect(await client.ask('GET /b HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: http\r\n\r\n')).toContain('200 OK')
    expect(backend.seen[1]!.headers['x-forwarded-proto']).toBe('https')
  })

  test('passes a stream on as it comes', async () => {
    let say: ((text: string) => void) | undefined
    const backend = await HttpBackend.start((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      say = (text) => void res.write(text)
    })
    const edge = await proxyingTls(backend)
    const client = await TlsClient.connected(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => say !== undefined)
    for (const word of ['one', 'two', 'three']) {
      say!(`data: ${word}\n\n`)
      await until(() => client.received.includes(word))
    }
  })

  test('breaks the connection off where a response ends too early, so that nobody takes it for a whole one', async () => {
    const backend = await RawBackend.start(({ socket }) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf'))
    const edge = await proxyingTls(backend)
    const client = await TlsClient.connected(edge.port)
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.closed()
    expect([client.errorCode, client.hasEnded]).toEqual(['ECONNRESET', false])
  })

  test('answers a client that closes its side after its request', async () => {
    const edge = await proxyingTls(await HttpBackend.start())
    const client = await TlsClient.connected(edge.port)
    client.socket.end('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody')
    expect(await client.closed()).toMatch(/^HTTP\/1.1 200 /)
    expect([client.hasEnded, client.errorCode]).toEqual([true, undefined])
  })
})
