import { expect, onTestFinished, test, vi } from 'vitest'
import * as http2 from '../../../src/doors/grpc/http2/frame-reader.ts'
import { GrpcConnection } from '../../../src/doors/grpc/http2/grpc-connection.ts'
import { ECHO, EchoMethods, NEVER, WATCH } from '../../support/grpc/echo-methods.ts'
import {
  callFields,
  data,
  frame,
  headers,
  hello,
  integer,
  ping,
  plainBlock,
  plainText,
  reset,
  windowUpdate,
} from '../../support/grpc/frames.ts'
import { prefixed } from '../../support/grpc/grpc-client.ts'
import { asked, head, served, started } from '../../support/grpc/limited-layer.ts'
import { RawHttp2 } from '../../support/grpc/raw-http2.ts'
import { LAYERS, servingCalls } from '../../support/grpc/serving-calls.ts'
import { HeldNow } from '../../support/service/held-now.ts'
import { until } from '../../support/until.ts'

const INITIAL_WINDOW = 4

test.each(LAYERS)('a client that does not read is not read from, and is cut after a while, on the %s layer', async (layer) => {
  const echo = new EchoMethods()
  const time = new HeldNow()
  const { port } = await servingCalls(layer, { methods: echo.methods, timeouts: { keepAliveMs: 200 } })
  const client = new RawHttp2(port)
  client.socket.pause()
  const block = integer(0x40, 6, 0)
  const added = Buffer.concat([...callFields(ECHO).map(([name, value]) => Buffer.concat([block, plainText(name), plainText(value)]))])
  client.send(hello([INITIAL_WINDOW, 2 ** 31 - 1]), windowUpdate(0, 2 ** 30), headers(1, added), data(1, prefixed('first')))
  await until(() => echo.handled === 1)
  const again = Buffer.from([67, 66, 65, 64, 63, 62].map((index) => 0x80 | index))
  const message = prefixed('x'.repeat(8000))
  let id = 3
  const feed = setInterval(() => {
    for (let i = 0; i < 100 && client.socket.writableLength < 2 ** 20; i++, id += 2) client.send(headers(id, again), data(id, message))
  }, 1)
  await time.passUntil(until(() => client.socket.destroyed || client.socket.errored !== null))
  clearInterval(feed)
  // No more than the system takes on both sides was answered.
  expect(echo.handled).toBeLessThan(4000)
  const other = new RawHttp2(port)
  other.send(hello(), headers(1, plainBlock(callFields(ECHO))), data(1, prefixed('other')))
  expect(await other.ended(1)).toMatchObject({ fields: { 'grpc-status': '0' }, messages: ['other'] })
})

test.each([-1, 1])('a message that content-length is %i bytes off ends its stream alone', async (difference) => {
  const { client, echo } = await started()
  const message = prefixed('message')
  const field = ['content-length', String(message.length + difference)] as const
  client.send(hello(), headers(1, head(ECHO, [field])), data(1, message), asked(3, ECHO, 'another'))
  expect(await client.ended(1)).toMatchObject({ resetCode: http2.PROTOCOL_ERROR })
  expect(await client.ended(3)).toMatchObject({ ...served, messages: ['another'] })
  expect(echo.handled).toBe(1)
})

test('heads that are here in part have a limit in sum, with messages', async () => {
  const { client, port, other } = await started({ maxPartialBytes: 1000 })
  const part = frame(http2.HEADERS, 0, 1, plainBlock([['x', 'y'.repeat(600)]]))
  client.send(hello(), part)
  client.send(ping())
  expect(await client.goAway()).toBe(http2.PROTOCOL_ERROR) // here, and forgotten
  const second = new RawHttp2(port)
  const third = new RawHttp2(port)
  second.send(
    hello(),
    headers(1, head(NEVER)),
    data(1, prefixed('z'.repeat(600)).subarray(0, 600), false),
    headers(3, head(ECHO)),
    data(3, prefixed('a')),
  )
  expect(await second.ended(3)).toMatchObject(served)
  third.send(hello(), part)
  expect(await third.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  second.socket.destroy()
  await other()
})

test('cancelling calls as fast as they are made ends the connection (CVE-2023-44487)', async () => {
  const { client, echo, other } = await started({ resetBurst: 100, resetsPerSecond: 0 })
  const block = head(NEVER)
  client.send(
    hello(),
    ...Array.from({ length: 1000 }, (_, i) => [headers(2 * i + 1, block), data(2 * i + 1, prefixed('a')), reset(2 * i + 1)]).flat(),
  )
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  expect(echo.handled).toBe(101)
  expect(echo.waiting.every(({ isOver }) => isOver())).toBe(true)
  await other()
})

test.each<[what: string, frames: (id: number) => Buffer]>([
  ['an empty WINDOW_UPDATE', (id) => windowUpdate(id, 0)],
  ['a window that is too large', (id) => windowUpdate(id, 2 ** 31 - 1)],
  ['DATA behind the end', (id) => data(id, prefixed('b'))],
  ['a head behind the end', (id) => headers(id, plainBlock([['x', 'y']]), true)],
])('so does making us cancel them, by %s (CVE-2025-8671)', async (_what, frames) => {
  const { client, echo, other } = await started({ resetBurst: 100, resetsPerSecond: 0 })
  const block = head(NEVER)
  client.send(
    hello(),
    ...Array.from({ length: 1000 }, (_, i) => [headers(2 * i + 1, block), data(2 * i + 1, prefixed('a')), frames(2 * i + 1)]).flat(),
  )
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  expect(echo.handled).toBe(101)
  expect(echo.waiting.every(({ isOver }) => isOver())).toBe(true)
  await other()
})

test('a flood of calls that are refused ends the connection', async () => {
  const { client } = await started({ controlBurst: 100, controlsPerSecond: 0 })
  const block = head('/no.Such/Method')
  client.send(hello(), ...Array.from({ length: 200 }, (_, i) => headers(2 * i + 1, block, true)))
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
})

test('the window of the connection bounds all streams together, and a large reply goes in frames of 16 KiB', async () => {
  const { client } = await started()
  const large = 'x'.repeat(60_000)
  const pieces = (id: number): Buffer[] => {
    const body = prefixed(large)
    return [0, 1, 2, 3].map((i) => data(id, body.subarray(i * 16_000, (i + 1) * 16_000), i === 3))
  }
  client.send(hello(), headers(1, head(ECHO)), ...pieces(1), headers(3, head(ECHO)), ...pieces(3))
  expect(await client.ended(1)).toMatchObject(served)
  const sent = (): number => client.frames.filter(({ type }) => type === http2.DATA).reduce((sum, { payload }) => sum + payload.length, 0)
  await until(() => sent() === 65_535)
  client.send(windowUpdate(0, 2 ** 20))
  expect(await client.ended(3)).toMatchObject({ ...served, messages: [large] })
  expect(Math.max(...client.frames.map(({ payload }) => payload.length))).toBe(16_384)
})

test('replies that no window lets through have a limit', async () => {
  const { client, other } = await started({ maxWaitingBytes: 1000 })
  client.send(hello([INITIAL_WINDOW, 0]), ...Array.from({ length: 50 }, (_, i) => asked(2 * i + 1, ECHO, 'x'.repeat(50))))
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  await other()
})

test('replies that wait have a limit in sum: connections that are far behind are cut, and others go on', async () => {
  const { client, port, other } = await started({ maxUnsentBytes: 150_000 })
  const behind = (connection: RawHttp2, id: number): void => {
    const body = prefixed('x'.repeat(70_000))
    const pieces = [0, 1, 2, 3, 4].map((i) => data(id, body.subarray(i * 16_000, (i + 1) * 16_000), i === 4))
    connection.send(headers(id, head(ECHO)), ...pieces)
  }
  const second = new RawHttp2(port)
  const little = new RawHttp2(port)
  for (const connection of [client, second, little]) connection.send(hello([INITIAL_WINDOW, 0]))
  little.send(asked(1, ECHO, 'little'))
  behind(client, 1)
  behind(second, 1)
  await until(() => second.result(1).fields[':status'] === '200')
  behind(second, 3)
  await client.closed()
  await second.closed()
  little.send(windowUpdate(1, 100))
  expect(await little.ended(1)).toMatchObject({ ...served, messages: ['little'] })
  await other()
})

test('so have the messages of a stream', async () => {
  const { client, echo, other } = await started({ maxWaitingBytes: 1000 })
  client.send(hello([INITIAL_WINDOW, 0]), asked(1, WATCH, 'a'))
  await until(() => echo.watchers.size === 1)
  const [watcher] = echo.watchers
  for (let i = 0; i < 50; i++) watcher!.send(Buffer.alloc(50))
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  expect([watcher!.isOver, echo.watchers.size]).toEqual([true, 0])
  await other()
})

test.each(LAYERS)('a reply that no window lets through is given up after a while on the %s layer', async (layer) => {
  const time = new HeldNow()
  const { client, echo } = await started({}, { keepAliveMs: 100 }, layer)
  client.send(hello([INITIAL_WINDOW, 0]), asked(1, ECHO, 'a'))
  await until(() => echo.handled === 1)
  // The node layer looks every 250 ms, and a second after the call it gives up the connection.
  expect(await time.passUntil(client.ended(1), 10)).toMatchObject({ resetCode: http2.CANCEL })
})

test('a connection whose reads always end within a frame goes on', async () => {
  // Each call is whole long before a head may be late, all of them together are not.
  const time = new HeldNow()
  const { client, echo } = await started({}, { headersTimeoutMs: 100 })
  const looks = vi.spyOn(GrpcConnection.prototype, 'check')
  onTestFinished(() => looks.mockRestore())
  const half = (id: number): [Buffer, Buffer] => [asked(id, ECHO, 'a').subarray(0, 20), asked(id, ECHO, 'a').subarray(20)]
  client.send(hello(), half(1)[0])
  for (let id = 1; id < 9; id += 2) {
    client.send(half(id)[1], half(id + 2)[0])
    await until(() => echo.handled === (id + 1) / 2)
    time.advance(60)
    const looked = looks.mock.calls.length
    await until(() => looks.mock.calls.length > looked + 1)
    expect(client.isClosed).toBe(false)
  }
})
