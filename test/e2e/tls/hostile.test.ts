import { type ChildProcess, spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { metric } from '../../support/service/metrics.ts'
import { running } from '../../support/service/running.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { ownPair, QUESTION, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

/** The first bytes of a ClientHello, which promise more. */
const HALF_HELLO = Buffer.from([22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3])

async function tlsEdge(env: Readonly<Record<string, string>> = {}): Promise<Edge> {
  return running({ bundle: bundle(1), env: { ...tlsEnv(await ownPair()), EDGE_ADMIN_PORT: '0', ...env } })
}

function failed({ adminPort }: Edge, reason: string): Promise<number> {
  return metric(adminPort, `edge_tls_handshake_failures_total{listener="main",reason="${reason}"}`)
}

async function expectServing({ port }: Edge): Promise<void> {
  expect(await (await TlsClient.connected(port)).ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
}

describe('bytes that are no handshake close their connection, are counted and not logged', () => {
  test.each([
    ['plain HTTP', 'not_tls', QUESTION],
    ['a request to a proxy', 'not_tls', 'CONNECT a:443 HTTP/1.1\r\n\r\n'],
    ['noise', 'not_tls', '\u0000\u0001\u0002\u0003noise and more noise'],
    ['a record that is longer than any', 'other', '\u0016\u0003\u0001\u00ff\u00ff\u0001'],
    ['the version 1.1', 'version', helloOf(0x0302)],
  ])('%s', async (_what, reason, bytes) => {
    const edge = await tlsEdge()
    const lines = edge.log.length
    const client = RawClient.connect(edge.port)
    client.send(bytes)
    await client.closed()
    expect(client.received).not.toContain('HTTP/1.1 200')
    await until(async () => (await failed(edge, reason)) === 1)
    expect(edge.log.slice(lines)).toEqual([])
    await expectServing(edge)
  })
})

describe('a handshake that takes too long', () => {
  test('is cut, however steadily its bytes come', async () => {
    const edge = await tlsEdge({ EDGE_HEADERS_TIMEOUT_MS: '300' })
    const silent = RawClient.connect(edge.port)
    const slow = RawClient.connect(edge.port)
    slow.send(HALF_HELLO)
    while (!slow.isClosed) {
      slow.send('\u0000')
      await sleep(20)
    }
    await silent.closed()
    await until(async () => (await failed(edge, 'timeout')) === 2)
  })

  test('does not hold up a shutdown', async () => {
    const edge = await tlsEdge()
    const half = RawClient.connect(edge.port)
    half.send(HALF_HELLO)
    const silent = RawClient.connect(edge.port)
    const open = await TlsClient.connected(edge.port)
    await open.ask(QUESTION)
    await edge.stop()
    await Promise.all([half.closed(), silent.closed(), open.closed()])
  })
})

test.each([
  ['a request', QUESTION],
  ['a method that OpenSSL does not know', 'DELETE / HTTP/1.1\r\nHost: a\r\n\r\n'],
])('%s in plain HTTP is told that the port speaks TLS', async (_what, request) => {
  const edge = await tlsEdge()
  const client = RawClient.connect(edge.port)
  client.send(request)
  expect(await client.closed()).toMatch(
    /^HTTP\/1.1 400 Bad Request\r\nConnection: close\r\n[\s\S]*\r\n\r\nThis port speaks TLS: use https\.$/,
  )
})

test('a client that leaves in the middle of its handshake is counted, and its place is free again', async () => {
  const edge = await tlsEdge()
  for (let i = 0; i < 20; i++) {
    const client = RawClient.connect(edge.port)
    client.send(HALF_HELLO)
    await until(() => client.socket.writableLength === 0)
    client.socket.destroy()
  }
  await until(async () => (await failed(edge, 'closed')) === 20)
  await until(async () => (await metric(edge.adminPort, 'edge_worker_connections{worker="1"}')) === 1)
})

test('a flood of half handshakes holds up nobody on an open connection, and ends when they do', async () => {
  const edge = await tlsEdge()
  const open = await TlsClient.connected(edge.port)
  const flood = Array.from({ length: 700 }, () => RawClient.connect(edge.port))
  for (const client of flood) client.send(HALF_HELLO)
  for (let i = 0; i < 20; i++) expect(await open.ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
  for (const client of flood) client.socket.destroy()
  await expectServing(edge)
})

test('renegotiation is refused, with which a client of TLS 1.2 could ask for signatures at will', async () => {
  const edge = await tlsEdge()
  const client = openssl(edge.port, '-tls1_2')
  await until(() => client.output.includes('Verify return code'))
  client.process.stdin!.write('R\n')
  await until(() => client.hasEnded || client.output.includes('no renegotiation'))
  expect(client.output).toMatch(/no renegotiation|alert/i)
  await expectServing(edge)
})

/** A ClientHello that offers this version at most, and two old ciphers. */
function helloOf(version: number): string {
  const random = Buffer.alloc(32, 7)
  const body = Buffer.concat([Buffer.from([version >> 8, version & 255]), random, Buffer.from([0, 0, 4, 0xc0, 0x13, 0x00, 0x2f, 1, 0])])
  const message = Buffer.concat([Buffer.from([1, 0, 0, body.length]), body])
  return Buffer.concat([Buffer.from([22, 3, 1, 0, message.length]), message]).toString('latin1')
}

interface OpensslClient {
  readonly process: ChildProcess
  readonly output: string
  readonly hasEnded: boolean
}

function openssl(port: number, ...options: readonly string[]): OpensslClient {
  const child = spawn('openssl', ['s_client', '-connect', `127.0.0.1:${port}`, ...options])
  const client = { process: child, output: '', hasEnded: false }
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      client.output += chunk.toString('latin1')
    })
  }
  child.on('close', () => {
    client.hasEnded = true
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return client
}
