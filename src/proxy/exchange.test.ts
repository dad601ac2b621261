import { Socket } from 'node:net'
import { pino } from 'pino'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { RawBackend, type RawConnection } from '../../test/support/proxy/backend.ts'
import { writeUntilStuck } from '../../test/support/proxy/proxy.ts'
import { RecordingDownstream } from '../../test/support/proxy/recording-downstream.ts'
import { until, untilStill } from '../../test/support/until.ts'
import { ConnectionSlots, newSlotsBuffer } from '../listen/connection-slots.ts'
import { BackendMetrics } from '../telemetry/metrics/backend-metrics.ts'
import { MetricMemory, newMetricBuffer } from '../telemetry/metrics/metric-memory.ts'
import type { AllowedRequest } from './allowed-request.ts'
import { Backend } from './backend/backend.ts'
import { BodyMemory, newBodyMemoryBuffer } from './body/body-memory.ts'
import type { ReceivedHead } from './downstream.ts'
import { Exchange } from './exchange.ts'
import { OpenStreams } from './llm/open-streams.ts'
import { ProxiedRequest, ProxiedRequestView } from './proxied-request.ts'

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n'
const UPLOAD: Partial<ReceivedHead> = { method: 'POST', fields: ['Host', 'a', 'Content-Length', '6'] }
const LONG_MS = 600_000
/** More than all buffers on the way hold. */
const MUCH = 32 * 1024 * 1024

describe('a response', () => {
  test('that came in one piece leaves in one', async () => {
    const { downstream, backend } = await exchanging()
    backend.write(`${HEAD}abcdefgh`)
    await until(() => downstream.sent.length > 1)
    expect(downstream.sent).toEqual(['200', '.abcdefgh'])
  })

  test('sends its head when nothing comes behind it, and each piece when the next is not there', async () => {
    const { downstream, backend } = await exchanging()
    for (const [piece, sent] of [
      [HEAD, '+'],
      ['abcd', '+abcd'],
      ['efgh', '.efgh'],
    ] as const) {
      backend.write(piece)
      await until(() => downstream.sent.at(-1) === sent)
    }
    expect(downstream.sent).toEqual(['200', '+', '+abcd', '.efgh'])
  })

  test('waits at the backend while its client takes no more, and goes on when it does', async () => {
    const { downstream, backend } = await exchanging()
    downstream.hasRoom = false
    backend.write(`HTTP/1.1 200 OK\r\nContent-Length: ${MUCH}\r\n\r\n`)
    backend.write(Buffer.alloc(MUCH - 1))
    await until(() => downstream.writtenBytes > 0)
    await untilStill(() => downstream.writtenBytes)
    expect(downstream.writtenBytes).toBeLessThan(MUCH / 4)
    downstream.hasRoom = true
    downstream.listener!.onClientDrained()
    await until(() => downstream.writtenBytes === MUCH - 1)
    backend.write('z')
    await until(() => downstream.sent.at(-1) === '.z')
  })

  test('that its client does not take is cut, and is no failure of the backend', async () => {
    const { downstream, backend, metrics, failures } = await exchanging({}, 50)
    downstream.hasRoom = false
    backend.write(`${HEAD}abcd`)
    await until(() => downstream.sent.includes('cut'))
    expect([downstream.stallMs, metrics.clientAborts.count, failures]).toEqual([50, 1, []])
  })

  test('before the end of its request has the rest of the body dropped', async () => {
    const { downstream, backend } = await exchanging(UPLOAD)
    await until(() => downstream.body.reader !== undefined)
    backend.write(`${HEAD}abcdefgh`)
    await until(() => downstream.sent.length === 3)
    expect(downstream.sent).toEqual(['200', 'drop body', '.abcdefgh'])
    expect([downstream.body.reader, downstream.body.isPaused]).toEqual([undefined, false])
  })
})

describe('a chunked response', () => {
  const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  const relaying = (client: RecordingDownstream): void => {
    client.relays = true
  }

  test('passes with its frames as they came, where the client takes them', async () => {
    const { downstream, backend } = await exchanging({}, LONG_MS, relaying)
    backend.write(`${CHUNKED}3\r\nabc\r\n03\r\ndef\r\n`)
    await until(() => downstream.sent.length === 2)
    backend.write('4;x=y\r\nghij\r\n0\r\nX-T: 1\r\n\r\n')
    await until(() => downstream.sent.length === 5)
    expect(downstream.sent).toEqual(['200', '+3\r\nabc\r\n03\r\ndef\r\n', '.4\r\nghij\r\n', 'X-T', '1'])
  })

  test('passes without them elsewhere, and what came together leaves together', async () => {
    const { downstream, backend } = await exchanging()
    backend.write(`${CHUNKED}3\r\nabc\r\n3\r\ndef\r\n`)
    await until(() => downstream.sent.length === 2)
    backend.write('0\r\n\r\n')
    await until(() => downstream.sent.length === 3)
    expect(downstream.sent).toEqual(['200', '+abcdef', '.'])
  })

  test('waits at the backend while its client takes no more', async () => {
    const { downstream, backend } = await exchanging({}, LONG_MS, relaying)
    downstream.hasRoom = false
    const chunks = `10000\r\n${'x'.repeat(0x10000)}\r\n`.repeat(16)
    backend.write(CHUNKED)
    const written = await writeUntilStuck(backend, Buffer.from(chunks))
    expect(downstream.writtenBytes).toBeLessThan(written)
    downstream.hasRoom = true
    downstream.listener!.onClientDrained()
    await until(() => downstream.writtenBytes === written)
    expect(downstream.sent.slice(1).join('').replaceAll('+', '') === chunks.repeat(written / chunks.length)).toBe(true)
  })

  test.each([
    ['between chunks ends it', '3\r\nabc\r\n', '.'],
    ['in the middle of a chunk that was relayed breaks it off', '3\r\nabc\r\n8\r\nhalf', 'reset'],
    ['before the end of a chunk that was relayed breaks it off', '3\r\nabc', 'reset'],
  ])('that is cut %s', async (_, chunks, end) => {
    const { downstream, backend, connection, exchange } = await exchanging({}, LONG_MS, relaying)
    backend.write(CHUNKED + chunks)
    await until(() => downstream.sent.length === 2)
    exchange.cut()
    await until(() => connection.isClosed)
    expect(downstream.sent.slice(1)).toEqual([`+${chunks}`, end])
  })
})

test('the head of an upload leaves with the first of its body, and alone where nothing of it is here', async () => {
  const sent = vi.spyOn(Socket.prototype, 'write')
  onTestFinished(() => void sent.mockRestore())
  const heads = (): unknown[] => sent.mock.calls.map(([text]) => text).filter((text) => String(text).startsWith('POST'))
  await exchanging(UPLOAD, LONG_MS, ({ body }) => {
    body.resume = () => body.reader?.onData(Buffer.from('abc'))
  })
  expect(heads()).toEqual([expect.stringMatching(/\r\n\r\nabc$/)])
  sent.mockClear()
  await exchanging(UPLOAD)
  expect(heads()).toEqual([expect.stringMatching(/\r\n\r\n$/)])
})

describe('an exchange that begins again', () => {
  test('is free when its response has left and its connection is given back, and knows nothing of the last request', async () => {
    const { downstream, backend, exchange, freed, allowed, server } = await exchanging(UPLOAD)
    await until(() => downstream.body.reader !== undefined)
    const [listener, upload] = [downstream.listener!, downstream.body.reader!]
    upload.onData(Buffer.from('abcdef'))
    upload.onEnd()
    backend.write(`${HEAD}abcdefgh`)
    await until(() => freed.length === 1)
    expect([freed, downstream.sent.at(-1)]).toEqual([[exchange], '.abcdefgh'])
    listener.onClientGone()
    const next = new RecordingDownstream()
    exchange.begin({ ...allowed, request: requestOf(next), downstream: next }, undefined)
    await until(() => server.heads === 2)
    expect(server.connections).toHaveLength(1)
    backend.write('HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nz')
    await until(() => freed.length === 2)
    expect([next.sent, downstream.sent.length]).toEqual([['201', '.z'], 3])
  })

  test.each([
    ['its client has left', ({ downstream }: Exchanging) => downstream.listener!.onClientGone()],
    ['its backend has failed', ({ connection }: Exchanging) => void connection.socket.resetAndDestroy()],
    ['it was cut', ({ exchange }: Exchanging) => exchange.cut()],
  ])('is none of which %s', async (_, end) => {
    const exchanged = await exchanging()
    exchanged.backend.write('HTTP/1.1 200 OK\r\n\r\nabcd')
    await until(() => exchanged.downstream.sent.length === 2)
    end(exchanged)
    await until(() => exchanged.metrics.openRequests.count === 0)
    expect(exchanged.freed).toEqual([])
  })
})

describe('a client that leaves', () => {
  test.each([
    ['before the response', '', []],
    ['behind its head', HEAD, ['200', '+']],
    ['in the middle of it', `${HEAD}abcd`, ['200', '+abcd']],
  ])('%s ends the call, is counted once and gets nothing more', async (_, bytes, sent) => {
    const { downstream, backend, connection, metrics, failures } = await exchanging()
    backend.write(bytes)
    await until(() => downstream.sent.length === sent.length)
    const listener = downstream.listener!
    listener.onClientGone()
    listener.onClientGone()
    await until(() => connection.isClosed)
    expect(downstream.sent).toEqual(sent)
    expect([metrics.clientAborts.count, metrics.openRequests.count, downstream.listener, failures]).toEqual([1, 0, undefined, []])
  })

  test('while it takes nothing ends the call too', async () => {
    const { downstream, backend, connection } = await exchanging()
    downstream.hasRoom = false
    backend.write(`${HEAD}abcd`)
    await until(() => downstream.sent.length === 2)
    downstream.listener!.onClientGone()
    await until(() => connection.isClosed)
    expect(downstream.sent).toEqual(['200', '+abcd'])
  })

  test('during its upload ends the call, and nobody reads the rest', async () => {
    const { downstream, connection } = await exchanging(UPLOAD)
    await until(() => downstream.body.reader !== undefined)
    downstream.body.reader!.onData(Buffer.from('abc'))
    await until(() => connection.received.endsWith('abc'))
    downstream.listener!.onClientGone()
    await until(() => connection.isClosed)
    expect(downstream.body.reader).toBeUndefined()
  })

  test('behind the end of its response is not missed', async () => {
    const { downstream, backend, metrics } = await exchanging()
    const listener = downstream.listener!
    backend.write(`${HEAD}abcdefgh`)
    await until(() => downstream.sent.length === 2)
    expect(downstream.listener).toBeUndefined()
    listener.onClientGone()
    expect([metrics.clientAborts.count, metrics.openRequests.count]).toEqual([0, 0])
  })
})

describe('a client that half-closes', () => {
  test('is probed by 100 Continue before the response, and no more behind it', async () => {
    const { downstream, backend } = await exchanging()
    useFakeTimers()
    downstream.listener!.onClientEnded()
    vi.advanceTimersByTime(350)
    expect(downstream.sent).toEqual(['100', '100'])
    backend.write(`${HEAD}abcdefgh`)
    await until(() => downstream.sent.length === 4)
    vi.advanceTimersByTime(10_000)
    expect(downstream.sent.slice(2)).toEqual(['200', '.abcdefgh'])
  })

  test('before its request is decided is probed too', async () => {
    useFakeTimers()
    const { downstream } = await exchanging({}, LONG_MS, (client) => {
      client.hasEnded = true
    })
    vi.advanceTimersByTime(250)
    expect(downstream.sent).toEqual(['100'])
  })

  test('is cut when its response pauses for long, and not before', async () => {
    const { downstream, backend } = await exchanging()
    backend.write(`${HEAD}abcd`)
    await until(() => downstream.sent.length === 2)
    useFakeTimers()
    downstream.listener!.onClientEnded()
    vi.advanceTimersByTime(2499)
    expect(downstream.sent).toEqual(['200', '+abcd'])
    vi.advanceTimersByTime(1)
    expect(downstream.sent).toEqual(['200', '+abcd', 'cut'])
  })

  test('is not cut while bytes flow', async () => {
    const { downstream, backend } = await exchanging()
    backend.write(`${HEAD}abcd`)
    await until(() => downstream.sent.length === 2)
    useFakeTimers()
    downstream.listener!.onClientEnded()
    vi.advanceTimersByTime(2000)
    backend.write('ef')
    await until(() => downstream.sent.length === 3)
    vi.advanceTimersByTime(2000)
    expect(downstream.sent).toEqual(['200', '+abcd', '+ef'])
  })
})

test('what fails before the response is reported with the fields of the decision, and once', async () => {
  const { downstream, connection, failures, metrics } = await exchanging()
  connection.socket.resetAndDestroy()
  await until(() => failures.length > 0)
  expect(failures).toEqual([['backend_reset', 'X-Ours: 1\r\n']])
  expect([downstream.sent, downstream.listener, metrics.openRequests.count]).toEqual([[], undefined, 0])
})

test('a downstream that breaks costs its own request', async () => {
  const { downstream, backend, connection, broken, metrics } = await exchanging()
  const mistake = new TypeError('a mistake')
  downstream.write = () => {
    throw mistake
  }
  backend.write(`${HEAD}abcd`)
  await until(() => connection.isClosed)
  expect([broken, metrics.openRequests.count, downstream.listener]).toEqual([[mistake], 0, undefined])
})

test('a mistake behind the end of a response is told, and does nothing to the next request of its client', async () => {
  const { downstream, backend, exchange, broken } = await exchanging()
  backend.write(`${HEAD}abcdefgh`)
  await until(() => downstream.sent.length === 2)
  const mistake = new TypeError('a mistake')
  exchange.abandon(mistake)
  expect([downstream.sent, broken]).toEqual([['200', '.abcdefgh'], [mistake]])
})

/** Those of the watch over a client; sockets have timers of their own. */
function useFakeTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
}

interface Exchanging {
  readonly downstream: RecordingDownstream
  readonly connection: RawConnection
  readonly backend: RawConnection['socket']
  readonly metrics: BackendMetrics
  readonly failures: unknown[]
  readonly broken: unknown[]
  readonly server: RawBackend
  readonly exchange: Exchange
  readonly allowed: AllowedRequest
  /** How often it may begin again. */
  readonly freed: Exchange[]
}

/** A request that has come to the backend, whose head is there. */
async function exchanging(
  received: Partial<ReceivedHead> = {},
  idleTimeoutMs = LONG_MS,
  prepare = (_client: RecordingDownstream) => {},
): Promise<Exchanging> {
  const server = await RawBackend.start(() => {})
  const metrics = new BackendMetrics(new MetricMemory(newMetricBuffer(2), 1))
  const url = new URL(server.url)
  const options = { url, connectTimeoutMs: LONG_MS, headersTimeoutMs: LONG_MS, idleTimeoutMs, queueMs: LONG_MS }
  const listener = { onOpenConnections: () => {}, onQueueLength: () => {}, onQueueWait: () => {} }
  const backend = new Backend(options, new ConnectionSlots(newSlotsBuffer(1), 1, 'backend', 9), listener)
  onTestFinished(() => backend.close())
  const downstream = new RecordingDownstream(received)
  prepare(downstream)
  const request = requestOf(downstream)
  const failures: unknown[] = []
  const broken: unknown[] = []
  const parts = {
    backend,
    idleTimeoutMs: backend.options.idleTimeoutMs,
    metrics,
    bodyMemory: new BodyMemory(newBodyMemoryBuffer(1), 1, { bodyMemoryBytes: 1 << 20, maxBodyBytes: 1 << 20, hashKey: [1, 2] }),
    openStreams: new OpenStreams({
      engine: { plan: undefined, active: undefined, cutsStreams: false, cutsStreamsByOverride: false, findStreamCut: () => undefined },
      metrics,
      logger: pino({ level: 'silent' }),
      nowMs: () => 0,
    }),
    nowMs: () => 0,
    onFailure: (_: unknown, { code }: { code: string }, fields: string) => void failures.push([code, fields]),
    onRevoked() {},
    onBroken: (_: unknown, error: unknown) => void broken.push(error),
  }
  const view = new ProxiedRequestView(request, downstream.peer)
  const allowed = {
    request,
    view,
    plan: undefined,
    body: undefined,
    downstream,
    fields: 'X-Ours: 1\r\n',
    llm: undefined,
    held: undefined,
    caller: undefined,
    host: 'a',
    target: '/',
    attempts: undefined,
    inserted: undefined,
  }
  const freed: Exchange[] = []
  const exchange = new Exchange(parts, (free) => void freed.push(free))
  exchange.begin(allowed, undefined)
  onTestFinished(() => downstream.listener?.onClientGone())
  await until(() => server.heads === 1)
  const connection = server.connections[0]!
  return { downstream, connection, backend: connection.socket, metrics, failures, broken, server, exchange, allowed, freed }
}

function requestOf({ received }: RecordingDownstream): ProxiedRequest {
  const request = ProxiedRequest.read(received, false)
  if (typeof request === 'string') throw new Error(request)
  return request
}
