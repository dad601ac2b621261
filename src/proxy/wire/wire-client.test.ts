import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { ScriptedSocket } from '../../../test/support/proxy/scripted-socket.ts'
import { type Downstream, LINGER_MS } from '../downstream.ts'
import { newProxyWire } from './wire-client.ts'

const HEAD_MS = 10_000
const KEEP_ALIVE_MS = 60_000
const STALL_MS = 20_000
/** How late a sweep may be, and what a client gets beyond its Keep-Alive. */
const MARGIN_MS = 4000
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n'
const CHUNKED = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
const FIELDS = { text: 'Content-Length: 2\r\n', hasDate: false, hasLength: true }

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval', 'setImmediate'] })
  onTestFinished(() => void vi.useRealTimers())
})

/** A connection of a wire of its own. */
class Connection extends ScriptedSocket {
  /** Requests that began. */
  begun = 0
  isHandedOver = false
  downstream: Downstream | undefined
  onRequest = (): void => {}

  constructor() {
    super()
    const wire = newProxyWire({ keepAliveMs: KEEP_ALIVE_MS, headersTimeoutMs: HEAD_MS, requestTimeoutMs: 0 }, 0, {
      peerOf: () => ({ address: '192.0.2.1', scheme: 'http', isTrusted: false }),
      isOwn: () => false,
      handle: (_, downstream) => {
        this.begun++
        this.downstream = downstream
        this.onRequest()
      },
      noteMalformed: () => {},
      handOver: () => {
        this.isHandedOver = true
      },
    })
    onTestFinished(() => wire.close())
    wire.accept(this.socket)
  }

  responds(): void {
    this.downstream!.head(200, undefined, FIELDS)
    this.downstream!.end('ok', [])
  }
}

describe('time', () => {
  test('a connection that has nothing under way is closed, but not while the client still takes its response', () => {
    const connection = new Connection()
    connection.says(GET)
    connection.block()
    connection.responds()
    vi.advanceTimersByTime(200_000)
    expect(connection.destroyed).toBe(false)
    connection.unblock()
    vi.advanceTimersByTime(KEEP_ALIVE_MS - 2000)
    expect(connection.destroyed).toBe(false)
    vi.advanceTimersByTime(2000 + MARGIN_MS)
    expect(connection.destroyed).toBe(true)
  })

  test('a long pipeline behind the last response is read for a while: a close would reset the client before it has read that', () => {
    const connection = new Connection()
    connection.says(GET.repeat(1000))
    connection.block()
    connection.downstream!.closeWhenDone()
    connection.responds()
    vi.advanceTimersByTime(2 * LINGER_MS)
    connection.unblock()
    expect([connection.destroyed, connection.socket.writableEnded]).toEqual([false, true])
    vi.advanceTimersByTime(LINGER_MS - MARGIN_MS)
    connection.says(GET)
    expect(connection.destroyed).toBe(false)
    vi.advanceTimersByTime(2 * MARGIN_MS)
    expect([connection.destroyed, connection.begun]).toEqual([true, 1])
  })

  test('a head has its time from its first byte on, however long the connection was idle before', () => {
    const connection = new Connection()
    connection.says(GET)
    connection.responds()
    vi.advanceTimersByTime(KEEP_ALIVE_MS - 5000)
    connection.says('GET / ')
    vi.advanceTimersByTime(HEAD_MS - 1000)
    expect(connection.sent).not.toContain('408')
    vi.advanceTimersByTime(MARGIN_MS)
    expect(connection.sent).toContain('HTTP/1.1 408 ')
  })

  test('a rest of a body that nobody wants is read for a while behind each response, not only behind the first', () => {
    const connection = new Connection()
    for (let i = 0; i < 2; i++) {
      connection.says(POST)
      connection.responds()
      vi.advanceTimersByTime(LINGER_MS - 2000)
      connection.says('0123456789')
      // Now the body is whole, and the next request has all the time it may have.
      connection.says(GET)
      vi.advanceTimersByTime(2 * LINGER_MS)
      expect([connection.destroyed, connection.begun]).toEqual([false, 2 * i + 2])
      connection.responds()
    }
    connection.says(POST)
    connection.responds()
    vi.advanceTimersByTime(LINGER_MS + MARGIN_MS)
    expect(connection.destroyed).toBe(true)
  })

  test('a client that does not take the response behind which its body is thrown away is cut', () => {
    const connection = new Connection()
    connection.says(POST)
    connection.block()
    connection.downstream!.dropBody(STALL_MS)
    connection.responds()
    vi.advanceTimersByTime(STALL_MS - 2000)
    expect(connection.destroyed).toBe(false)
    vi.advanceTimersByTime(2000 + MARGIN_MS)
    expect(connection.destroyed).toBe(true)
  })

  test('a client that takes nothing of its response is cut, and one that takes it slowly is not', () => {
    const connection = new Connection()
    connection.says(GET)
    connection.downstream!.limitStall(STALL_MS)
    connection.block()
    connection.downstream!.head(200, undefined, { ...FIELDS, text: 'Content-Length: 1000000\r\n' })
    for (let i = 0; i < 5; i++) {
      connection.downstream!.write('x'.repeat(100))
      vi.advanceTimersByTime(STALL_MS - 5000)
      connection.unblock()
      connection.block()
      expect(connection.destroyed).toBe(false)
    }
    connection.downstream!.write('x'.repeat(100))
    vi.advanceTimersByTime(STALL_MS + MARGIN_MS)
    expect(connection.destroyed).toBe(true)
  })
})

test('of a pipeline, each request begins in a turn of its own, though the one before was answered at once', () => {
  const connection = new Connection()
  connection.onRequest = () => connection.responds()
  connection.says(GET.repeat(3))
  for (let begun = 1; begun <= 3; begun++) {
    expect(connection.begun).toBe(begun)
    vi.advanceTimersToNextTimer()
  }
})

test('a request behind a response that the client does not take yet begins when it was taken', () => {
  const connection = new Connection()
  connection.says(GET)
  connection.block()
  connection.downstream!.head(200, undefined, { ...FIELDS, text: 'Content-Length: 100000\r\n' })
  connection.downstream!.end('x'.repeat(100_000), [])
  connection.says(GET)
  vi.advanceTimersByTime(1)
  expect(connection.begun).toBe(1)
  connection.unblock()
  connection.emit('drain')
  vi.advanceTimersByTime(1)
  expect(connection.begun).toBe(2)
})

test('behind a body whose trailers say that it is the last, nothing begins', () => {
  const connection = new Connection()
  connection.says(`${CHUNKED}0\r\nConnection: close\r\n\r\n`)
  connection.downstream!.body.resume()
  vi.advanceTimersByTime(1)
  connection.responds()
  connection.says(GET)
  vi.advanceTimersByTime(1)
  expect([connection.begun, connection.sent.match(/HTTP\/1.1 \d+/g)]).toEqual([1, ['HTTP/1.1 200', 'HTTP/1.1 400']])
})

test('a request that has waited never begins where its body is known to be malformed by then', () => {
  const connection = new Connection()
  connection.says(`${GET}${CHUNKED}1\r\nx\r\nzz\r\n`)
  connection.responds()
  vi.advanceTimersByTime(1)
  expect([connection.begun, connection.sent.match(/HTTP\/1.1 \d+/g)]).toEqual([1, ['HTTP/1.1 200', 'HTTP/1.1 400']])
})

test('a head that comes a byte at a time is not read anew for ever: node:http goes on with it', () => {
  const connection = new Connection()
  connection.says('GET / HTTP/1.1\r\nHost: a\r\nX-A: ')
  for (let i = 0; i < 10_000 && !connection.isHandedOver; i++) connection.says('x')
  expect(connection.isHandedOver).toBe(true)
  expect(connection.read().toString()).toMatch(/^GET \/ HTTP\/1\.1\r\nHost: a\r\nX-A: x+$/)
})

describe('whether a body has arrived is known when its head is', () => {
  const LONG_HEAD = POST.replace('Host', `X-Long: ${'x'.repeat(100)}\r\nHost`)
  const CHUNKS = '5\r\n01234\r\n0\r\n\r\n'

  test.each([
    ['with nothing of it', LONG_HEAD, '', [false, false]],
    ['with a part', LONG_HEAD, '01234', [false, true]],
    ['with all of it', LONG_HEAD, '0123456789', [true, true]],
    ['with another request behind it', LONG_HEAD, `0123456789${GET}`, [true, true]],
    ['with a part of its chunks', CHUNKED, CHUNKS.slice(0, -1), [false, false]],
    ['with all chunks', CHUNKED, CHUNKS, [true, false]],
  ] as const)('%s', (_what, head, body, expected) => {
    for (const pieces of [[head + body], [head.slice(0, 50), head.slice(50) + body], [GET + head + body]]) {
      const connection = new Connection()
      let found: unknown
      connection.onRequest = () => {
        const { isComplete, comesNext } = connection.downstream!.body
        found = [isComplete, comesNext]
        if (pieces[0]!.startsWith(GET) && connection.begun === 1) connection.responds()
      }
      for (const piece of pieces) connection.says(piece)
      vi.advanceTimersByTime(1)
      expect(found).toEqual(expected)
    }
  })
})
