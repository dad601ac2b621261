import { describe, expect, test } from 'vitest'
import { bundle } from '../../support/bundles/bundles.ts'
import { RawClient } from '../../support/proxy/proxy.ts'
import type { Edge } from '../../support/service/edge.ts'
import { running } from '../../support/service/running.ts'
import { anyKeyShare, clientHello, extension, RecordClient, recordsOf, serverName } from '../../support/tls/record-client.ts'
import { TlsClient } from '../../support/tls/tls-client.ts'
import { ownPair, QUESTION, tlsEnv } from '../../support/tls/tls-edge.ts'
import { until } from '../../support/until.ts'

const OK = 'HTTP/1.1 200 '

async function tlsEdge(): Promise<Edge> {
  return running({ bundle: bundle(1), env: tlsEnv(await ownPair()) })
}

function answersIn({ received }: { readonly received: string }): number {
  return received.split(OK).length - 1
}

/** Nothing was logged, and others are served. */
async function expectCalm(edge: Edge, lines: number): Promise<void> {
  expect(edge.log.slice(lines)).toEqual([])
  expect(await (await TlsClient.connected(edge.port)).ask(QUESTION)).toMatch(/^HTTP\/1.1 200 /)
}

describe('requests are the same, however they are cut into records', () => {
  test.each([
    ['a byte each', 1],
    ['seven bytes each', 7],
    ['as large as records may be', 16_384],
  ])('%s', async (_what, size) => {
    const edge = await tlsEdge()
    const client = await RecordClient.connected(edge.port)
    const questions = QUESTION.repeat(size === 1 ? 3 : 400)
    for (let at = 0; at < questions.length; at += size) client.send(questions.slice(at, at + size))
    const expected = questions.length / QUESTION.length
    await client.until(() => answersIn(client) === expected)
    expect([answersIn(client), client.isClosed]).toEqual([expected, false])
  })

  test('a request that hides another one in its body is one request, wherever its records end', async () => {
    const edge = await tlsEdge()
    const hidden = QUESTION.replace('\r\n\r\n', `\r\nContent-Length: ${QUESTION.length}\r\n\r\n${QUESTION}`)
    const client = await RecordClient.connected(edge.port)
    for (const at of [hidden.length - QUESTION.length, 20, hidden.length - 1]) {
      const before = answersIn(client)
      client.send(hidden.slice(0, at))
      client.send(hidden.slice(at))
      client.send(QUESTION)
      await client.until(() => answersIn(client) >= before + 2)
      expect(answersIn(client)).toBe(before + 2)
    }
    const ambiguous = await RecordClient.connected(edge.port)
    ambiguous.send(QUESTION.replace('\r\n\r\n', '\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n'))
    ambiguous.send(`0\r\n\r\n${QUESTION}`)
    await ambiguous.until(() => ambiguous.isClosed)
    expect(ambiguous.received).toMatch(/^HTTP\/1.1 400 /)
    expect(answersIn(ambiguous)).toBe(0)
  })
})

describe('on an open connection', () => {
  test('new keys may be asked for at any time, and thousands of times', async () => {
    const edge = await tlsEdge()
    const lines = edge.log.length
    const client = await RecordClient.connected(edge.port)
    for (let i = 0; i < 3; i++) {
      client.updateKeys()
      client.send(QUESTION)
      await client.until(() => answersIn(client) === i + 1)
    }
    for (let i = 0; i < 5000; i++) client.updateKeys()
    client.send(QUESTION)
    await client.until(() => answersIn(client) === 4)
    expect(answersIn(client)).toBe(4)
    await expectCalm(edge, lines)
  })

  test.each([
    ['records without content', (client: RecordClient) => client.send('')],
    ['warnings', (client: RecordClient) => client.sendWarning()],
  ])('endless %s close it with an alert', async (_what, send) => {
    const edge = await tlsEdge()
    const lines = edge.log.length
    const client = await RecordClient.connected(edge.port)
    for (let i = 0; i < 1000; i++) send(client)
    await client.until(() => client.isClosed)
    expect(client.received).toBe('')
    await expectCalm(edge, lines)
  })

  test.each([
    ['a record that was changed on its way', Buffer.concat([Buffer.from([23, 3, 3, 0, 40]), Buffer.alloc(40, 1)])],
    ['a record that is longer than any', Buffer.from([23, 3, 3, 0xff, 0xff])],
    ['plain HTTP', Buffer.from(QUESTION)],
    ['a plain alert that says goodbye', Buffer.from([21, 3, 3, 0, 2, 1, 0])],
  ])('%s closes it, and is no request', async (_what, bytes) => {
    const edge = await tlsEdge()
    const lines = edge.log.length
    const client = await RecordClient.connected(edge.port)
    client.send(QUESTION)
    await client.until(() => answersIn(client) === 1)
    client.sendRaw(bytes)
    await client.until(() => client.isClosed)
    expect(answersIn(client)).toBe(1)
    await expectCalm(edge, lines)
  })
})

describe('a ClientHello', () => {
  /** The type of the first record that comes back: 22 for a handshake, 21 for an alert; undefined if none does. */
  async function answerTo({ port }: Edge, bytes: Buffer): Promise<number | undefined> {
    const client = RawClient.connect(port)
    client.send(bytes)
    await until(() => client.isClosed || client.received.length > 0)
    return client.received.length === 0 ? undefined : client.received.charCodeAt(0)
  }

  test('may come in as many records as it has bytes', async () => {
    const edge = await tlsEdge()
    expect(await answerTo(edge, recordsOf(clientHello([anyKeyShare()]), 1))).toBe(22)
  })

  test.each([
    ['with 60 KiB of unknown extensions', Array.from({ length: 15 }, (_, i) => extension(0x6a00 + i, Buffer.alloc(4096)))],
    ['with thousands of extensions', Array.from({ length: 9000 }, (_, i) => extension(0x6a00 + i, Buffer.alloc(0)))],
    ['with the same extension twice', [serverName('a.test'), serverName('b.test')]],
    ['with an empty name', [serverName('')]],
    ['with a name of 255 characters', [serverName('a'.repeat(255))]],
    ['with a name of 256 characters', [serverName('a'.repeat(256))]],
    ['with a name of 30,000 characters', [serverName('a.'.repeat(15_000))]],
    ['with a NUL in its name', [serverName('localhost\0.evil.test')]],
    ['with a name in UTF-8', [serverName('b\u00c3\u00bccher.test')]],
    ['with an address for a name', [serverName('127.0.0.1'), extension(0x6a00, Buffer.alloc(1))]],
    ['with a name that ends in a dot', [serverName('LOCALHOST.')]],
    ['with an ALPN list that is cut short', [extension(16, Buffer.from([0, 9, 8, 104]))]],
    ['with an empty ALPN list', [extension(16, Buffer.from([0, 0]))]],
    ['with an empty protocol', [extension(16, Buffer.from([0, 1, 0]))]],
    ['with ALPN of unknown protocols', [extension(16, Buffer.from([0, 3, 2, 0xff, 0]))]],
    ['with early data', [extension(42, Buffer.alloc(0))]],
  ])('%s gets a handshake or an alert, and nobody else notices', async (_what, extensions) => {
    const edge = await tlsEdge()
    const lines = edge.log.length
    expect([21, 22]).toContain(await answerTo(edge, recordsOf(clientHello([anyKeyShare(), ...extensions]))))
    await expectCalm(edge, lines)
  })

  test('that promises more than a ClientHello may have is refused before it comes', async () => {
    const edge = await tlsEdge()
    const lines = edge.log.length
    expect(await answerTo(edge, recordsOf(Buffer.concat([Buffer.from([1, 0xff, 0xff, 0xff]), Buffer.alloc(2000)])))).toBe(21)
    await expectCalm(edge, lines)
  })
})
