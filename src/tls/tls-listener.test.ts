import { expect, onTestFinished, test } from 'vitest'
import { RawClient } from '../../test/support/proxy/proxy.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { type Certificate, issued, selfSigned } from '../../test/support/service/self-signed.ts'
import { anyKeyShare, clientHello, recordsOf } from '../../test/support/tls/record-client.ts'
import { TlsClient } from '../../test/support/tls/tls-client.ts'
import { ownPair } from '../../test/support/tls/tls-edge.ts'
import { until } from '../../test/support/until.ts'
import { OwnGrpcServer } from '../doors/grpc/grpc-server.ts'
import { ConnectionShares, ConnectionSlots, newSharesBuffer, newSlotsBuffer } from '../listen/connection-slots.ts'
import { HttpListener, type PortOptions } from '../listen/http-listener.ts'
import { HandshakePlaces } from './handshake-places.ts'
import { TlsContexts, TlsListener } from './tls-listener.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** The first bytes of a ClientHello, which promise more. */
const HALF_HELLO = Buffer.from([22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3])

test('a connection without a slot gets an alert, whatever it sends', async () => {
  const { port, refused } = await listening({ slots: 1, places: newPlaces() })
  const first = await TlsClient.connected(port)
  first.send('GET / HTTP/1.1\r\nHo')
  // Its bytes are there once the second is refused, because nobody takes the slot of one that sends.
  await until(async () => {
    const second = await TlsClient.connected(port)
    second.socket.destroy()
    return second.errorCode === 'ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR'
  })
  expect(refused()).toBeGreaterThan(0)
  expect(await first.ask('st: a\r\n\r\n')).toMatch(/^HTTP\/1.1 200 /)
})

test('a handshake that waits for its turn loses nothing of what its client sends', async () => {
  const { port } = await listening({ slots: 9, places: newPlaces(1) })
  const holder = RawClient.connect(port)
  holder.send(HALF_HELLO)
  const noise = RawClient.connect(port)
  noise.send('noise, which is read only when it is its turn')
  const waiting = TlsClient.connect(port)
  waiting.send(GET)
  holder.socket.destroy()
  await until(() => waiting.received.startsWith('HTTP/1.1 200 '))
  await noise.closed()
})

test('a client that has sent more than any ClientHello is not kept waiting', async () => {
  const { port } = await listening({ slots: 9, places: newPlaces(0) })
  const [modest, greedy] = [RawClient.connect(port), RawClient.connect(port)]
  modest.send(Buffer.alloc(16 * 1024, 22))
  await until(() => modest.socket.bytesWritten > 0)
  greedy.send(Buffer.alloc(64 * 1024, 22))
  await greedy.closed()
  expect(modest.isClosed).toBe(false)
})

test('a connection that says nothing takes no place from those that speak', async () => {
  const { port } = await listening({ slots: 99, places: new HandshakePlaces({ maxRunning: 1, share: 0.6, nowMs: () => 0 }) })
  const silent = Array.from({ length: 50 }, () => RawClient.connect(port))
  await until(() => silent.every(({ socket }) => !socket.connecting))
  expect(await (await TlsClient.connected(port)).ask(GET)).toMatch(/^HTTP\/1.1 200 /)
  expect(silent.some(({ isClosed }) => isClosed)).toBe(false)
})

test.each([
  ['half of one', HALF_HELLO],
  ['one byte', Buffer.of(22)],
  ['a whole one', recordsOf(clientHello([anyKeyShare()]))],
])('a crowd of one address that falls silent after a ClientHello (%s) makes room for a client of another', async (_what, bytes) => {
  let nowMs = 0
  const places = new HandshakePlaces({ maxRunning: 20, share: 0.6, nowMs: () => nowMs })
  places.costMs = 0
  const { port } = await listening({ slots: 99, places })
  const crowd = Array.from({ length: 60 }, () => RawClient.connect(port))
  for (const client of crowd) client.send(bytes)
  await until(() => crowd.every(({ socket }) => socket.bytesWritten === bytes.length))
  // Those that run and those that wait are all there before one that comes now.
  const newcomer = TlsClient.connect(port, { localAddress: '127.0.9.9' } as object)
  newcomer.send(GET)
  await until(() => newcomer.socket.bytesWritten > 0)
  for (let i = 0; i < 20; i++) await new Promise(setImmediate)
  nowMs = 250
  await until(() => newcomer.received.startsWith('HTTP/1.1 200 '))
  expect(crowd.filter(({ isClosed }) => isClosed).length).toBeLessThan(20)
})

test('a handshake that waits for its turn is cut when its time is over', async () => {
  const failures: string[] = []
  const { port } = await listening({
    slots: 9,
    places: newPlaces(0),
    handshakeMs: 50,
    onFailure: (reason) => void failures.push(reason),
  })
  const clients = [RawClient.connect(port), RawClient.connect(port)]
  for (const client of clients) client.send(HALF_HELLO)
  await Promise.all(clients.map((client) => client.closed()))
  await until(() => failures.length === 2)
  expect(failures).toEqual(['timeout', 'timeout'])
})

test.each(['TLSv1.2', 'TLSv1.3'] as const)(
  'with %s, a session is not resumed beyond the life of the certificate that began it',
  async (version) => {
    const directory = await scratchDirectory()
    const authority = await selfSigned(directory, 'DNS:authority', 'authority')
    const { cert, key } = await issued(directory, 'client', authority)
    const failures: string[] = []
    const clock = { wallMs: Date.now() }
    const { port } = await listening({
      slots: 9,
      places: newPlaces(),
      onFailure: (reason) => void failures.push(reason),
      client: { authority, wallMs: () => clock.wallMs },
    })
    const options = { cert, key, minVersion: version, maxVersion: version }
    const answer = async (session?: Buffer) => {
      const client = await TlsClient.connected(port, { ...options, ...(session && { session }) })
      const text = await client.ask(GET)
      return { text, session: client.session!, isResumed: client.socket.isSessionReused() }
    }
    const { session } = await answer()
    expect(await answer(session)).toMatchObject({ text: expect.stringMatching(/^HTTP\/1.1 200 /), isResumed: true })
    clock.wallMs += 3 * 86_400_000
    expect((await answer(session)).text).toBe('')
    expect(failures).toEqual(['client_certificate'])
    // A whole handshake has OpenSSL look at the certificate, by its own clock.
    expect((await answer()).text).toMatch(/^HTTP\/1.1 200 /)
  },
)

test('half a handshake does not hold up the end of a gRPC listener, however long its calls may take', async () => {
  const security = await secured({ places: newPlaces() })
  const server = new OwnGrpcServer(new Map(), portOptions(9, security), () => {})
  const { port } = (await server.listen({ host: '127.0.0.1', port: 0 }))!
  const half = RawClient.connect(port)
  half.send(HALF_HELLO)
  await until(() => half.socket.bytesWritten === HALF_HELLO.length)
  // The server has accepted it when one that came later is served.
  await TlsClient.connected(port, { ALPNProtocols: [] })
  await server.close(600_000)
  await half.closed()
})

function newPlaces(maxRunning = 500): HandshakePlaces {
  return new HandshakePlaces({ maxRunning, share: 0.6 })
}

interface ListeningOptions {
  readonly slots: number
  readonly places: HandshakePlaces
  readonly handshakeMs?: number
  readonly onFailure?: (reason: string) => void
  /** Who issues certificates of clients, if they need one, and the time by which they expire. */
  readonly client?: { readonly authority: Certificate; readonly wallMs: () => number }
}

async function listening({ slots, ...options }: ListeningOptions) {
  let refused = 0
  const listener = new HttpListener({
    ...portOptions(slots, await secured(options)),
    handle: (_req, res) => void res.end('hello'),
    handleExpecting: () => {},
    onFull: () => void refused++,
  })
  const { port } = (await listener.listen({ host: '127.0.0.1', port: 0 }))!
  onTestFinished(() => listener.close(0))
  return { port, refused: () => refused }
}

async function secured({
  places,
  handshakeMs = 600_000,
  onFailure = () => {},
  client,
}: Omit<ListeningOptions, 'slots'>): Promise<TlsListener> {
  const { cert, key } = await ownPair()
  const wallMs = client?.wallMs ?? Date.now
  const requiresClientCertificate = client !== undefined
  const security = new TlsListener({ protocol: 'http/1.1', requiresClientCertificate, handshakeMs, places, onFailure, wallMs })
  const pair = { certificate: cert.toString(), key: key.toString(), names: [], expiresAtMs: 0 }
  security.use(new TlsContexts({ pairs: [pair], clientAuthorities: client?.authority.cert.toString(), ticketKeys: Buffer.alloc(48) }))
  return security
}

function portOptions(slots: number, security: TlsListener): PortOptions {
  return {
    timeouts: { keepAliveMs: 600_000, headersTimeoutMs: 600_000, requestTimeoutMs: 600_000 },
    peers: 'remote',
    shares: new ConnectionShares(newSharesBuffer(1), 1),
    slots: new ConnectionSlots(newSlotsBuffer(1), 1, 'main', slots),
    onFull: () => {},
    onAcceptError: () => {},
    security,
  }
}
