import { setImmediate as turn } from 'node:timers/promises'
import { beforeAll, expect, test } from 'vitest'
import { PROXY_WIRES } from '../run/proxy-wire.ts'
import type { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { type Metrics, metricsOf } from '../service/metrics.ts'
import type { Owner } from '../service/running.ts'
import { thisSuite } from '../service/suite-owner.ts'
import { until } from '../until.ts'
import { RawBackend, type RawConnection } from './backend.ts'
import type { BrokenBackend, Expected } from './broken-backends.ts'
import { proxying, RawClient } from './proxy.ts'
import { type SeenResponse, seenResponse } from './seen-response.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const NEXT = 'GET /next HTTP/1.1\r\nHost: a\r\n\r\n'
/** Leaves no connection behind. */
const NEXT_ANSWER = 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nnext'
const AGAIN_ANSWER = 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nagain'
const FIRST_ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst'
const COUNTED = /^edge_(?:backend_(?:failures|responses|retries)_total|proxy_client_aborts_total|refused_requests_total)/

/** What became of one request, all that must not depend on the wire. */
interface Outcome extends SeenResponse {
  readonly connection: 'open' | 'ended' | 'reset'
  /** Whether the same connection goes on with another request. */
  readonly goesOn: boolean
  readonly counts: Readonly<Record<string, number>>
  readonly log: readonly object[]
  readonly backendConnections: number
}

/** Each of these backends does the same to clients of both wires, and to nobody else. */
export function brokenBackendsSuite(backends: readonly BrokenBackend[], env: Readonly<Record<string, string>> = {}): void {
  const proxies = proxiesOn(PROXY_WIRES, env)

  test.each(backends.map((backend) => [backend.name, backend] as const))('%s', async (_name, broken) => {
    const [own, node] = await Promise.all(proxies.map((proxy) => proxy.outcome(broken)))
    expect(own).toEqual(node)
    expectOutcome(own!, broken.expected)
  })
}

/** Each of these responses, cut in two at every byte, is the same for clients of both wires. */
export function cutResponsesSuite(responses: readonly Omit<BrokenBackend, 'expected'>[]): void {
  const proxies = proxiesOn(PROXY_WIRES)

  test.each(responses.map((response) => [response.name, response] as const))('%s', async (_name, response) => {
    const bytes = response.says.join('')
    const method = (response.asks ?? GET).split(' ')[0]!
    const cuts = [[...bytes], ...Array.from({ length: bytes.length + 1 }, (_, at) => [bytes.slice(0, at), bytes.slice(at)])]
    for (const says of cuts) {
      const [own, node] = await Promise.all(proxies.map((proxy) => proxy.sees({ ...response, says }, method)))
      expect(own, JSON.stringify(says)).toEqual(node)
    }
    for (const proxy of proxies) await proxy.untilQuiet()
  })
}

function proxiesOn(wires: readonly string[], env: Readonly<Record<string, string>> = {}): BrokenProxy[] {
  const owner = thisSuite()
  const proxies: BrokenProxy[] = []
  beforeAll(async () => {
    proxies.push(...(await Promise.all(wires.map((wire) => BrokenProxy.start({ ...env, EDGE_PROXY_WIRE: wire }, owner)))))
  })
  return proxies
}

function expectOutcome({ head, body, isWhole, connection, counts, backendConnections }: Outcome, expected: Expected): void {
  const failures = Object.keys(counts).filter((series) => series.startsWith('edge_backend_failures'))
  expect(backendConnections).toBe(0)
  if ('whole' in expected) {
    expect([isWhole, body, head.slice(0, 12)]).toEqual([true, expected.whole, `HTTP/1.1 ${expected.status ?? 200}`])
    expect(failures).toEqual([])
    return
  }
  const reason = 'refused' in expected ? expected.refused : expected.broken
  expect(failures).toEqual([`edge_backend_failures_total{reason="${reason}"}`])
  if ('broken' in expected) expect([isWhole, connection, head.slice(0, 12)]).toEqual([false, 'reset', 'HTTP/1.1 200'])
  else {
    expect(head).toContain(`\r\nX-Edge-Reason: ${reason}`)
    expect([isWhole, head.slice(0, 12)]).toEqual([true, `HTTP/1.1 ${reason === 'backend_timeout' ? 504 : 502}`])
  }
}

/** Edge before a backend that misbehaves, one request after the other. */
class BrokenProxy {
  readonly #edge: Edge
  readonly #clock: ManualClock
  readonly #backend: RawBackend

  private constructor(edge: Edge, clock: ManualClock, backend: RawBackend) {
    this.#edge = edge
    this.#clock = clock
    this.#backend = backend
  }

  static async start(env: Readonly<Record<string, string>>, owner: Owner): Promise<BrokenProxy> {
    const clock = new ManualClock()
    const backend = await RawBackend.start(() => {}, undefined, owner)
    return new BrokenProxy(await proxying(backend, { clock, env }, owner), clock, backend)
  }

  async outcome(broken: BrokenBackend): Promise<Outcome> {
    // So that every failure has a line in the log.
    this.#clock.advance(2000)
    const { asks = GET } = broken
    const seenLines = this.#edge.log.length
    if (broken.isReused === true) await this.#leaveIdleConnection()
    const before = await this.#metrics()
    const client = this.#play(broken)
    const response = await this.#response(client, asks.split(' ')[0]!)
    const goesOn = !client.isClosed && (await goesOnAfter(client, asks))
    const connection = client.errorCode === 'ECONNRESET' ? 'reset' : client.hasEnded ? 'ended' : 'open'
    client.socket.destroy()
    await this.untilQuiet()
    const after = await this.#metrics()
    const log = this.#edge.log.slice(seenLines).map(({ time, pid, hostname, detail, ...line }) => line)
    const backendConnections = after.value('edge_backend_connections')
    return { ...response, connection, goesOn, counts: difference(before, after), log, backendConnections }
  }

  /** What the client sees, and nothing else. */
  async sees(broken: Omit<BrokenBackend, 'expected'>, method: string): Promise<unknown> {
    const client = this.#play(broken)
    const response = await this.#response(client, method)
    client.socket.destroy()
    // A reset may overtake what was sent before it.
    return client.errorCode === undefined ? response : { isWhole: response.isWhole, errorCode: client.errorCode }
  }

  /** Others are served, and nothing of what was is left. */
  async untilQuiet(): Promise<void> {
    const other = RawClient.connect(this.#edge.port)
    this.#backend.script = ({ socket }) => socket.write(NEXT_ANSWER)
    other.send(NEXT)
    expect((await other.next()).body).toBe('next')
    other.socket.destroy()
    await until(async () => {
      const metrics = await this.#metrics()
      const open = metrics.value('edge_proxy_open_requests') + metrics.sum('edge_backend_connections')
      // The question's own is the one.
      return open === 0 && this.#backend.openConnections === 0 && metrics.connections.reduce((sum, count) => sum + count, 0) === 1
    })
  }

  #play({ asks = GET, says, shows, leaves }: Omit<BrokenBackend, 'expected'>): RawClient {
    const client = RawClient.connect(this.#edge.port)
    let hasPlayed = false
    this.#backend.script = async (connection) => {
      if (hasPlayed) return void connection.socket.write(connection.received.includes(' /next ') ? NEXT_ANSWER : AGAIN_ANSWER)
      hasPlayed = true
      for (const piece of says) {
        connection.socket.write(Buffer.from(piece, 'latin1'))
        // By then edge has read it, by itself.
        await turn()
        await turn()
      }
      await until(() => shows === undefined || client.received.includes(shows) || client.isClosed)
      if (leaves !== undefined) leave(connection, leaves)
    }
    client.send(asks)
    return client
  }

  async #response(client: RawClient, method: string): Promise<SeenResponse> {
    await until(() => client.isClosed || seenResponse(client.received, method).isWhole)
    const response = seenResponse(client.received, method)
    if (response.isWhole && /^Connection: close$/im.test(response.head)) await until(() => client.hasEnded || client.isClosed)
    return response
  }

  async #leaveIdleConnection(): Promise<void> {
    this.#backend.script = ({ socket }) => socket.write(FIRST_ANSWER)
    const client = RawClient.connect(this.#edge.port)
    client.send(GET)
    expect((await client.next()).body).toBe('first')
    client.socket.destroy()
    await until(() => client.isClosed)
  }

  #metrics(): Promise<Metrics> {
    return metricsOf(this.#edge.port)
  }
}

function leave({ socket }: RawConnection, how: 'end' | 'reset'): void {
  if (how === 'end') socket.end()
  else socket.resetAndDestroy()
}

/** Whether a second request on the connection is served: a client that has not sent its whole first one cannot ask. */
async function goesOnAfter(client: RawClient, asks: string): Promise<boolean> {
  if (asks.includes('Content-Length: 9') || asks.includes('chunked')) return false
  client.received = ''
  client.send(NEXT)
  await until(() => client.isClosed || seenResponse(client.received, 'GET').isWhole)
  return seenResponse(client.received, 'GET').body === 'next'
}

function difference(before: Metrics, after: Metrics): Record<string, number> {
  const grown = [...after.counters()].map(([series, value]) => [series, value - before.value(series)] as const)
  return Object.fromEntries(grown.filter(([series, value]) => COUNTED.test(series) && value > 0))
}
