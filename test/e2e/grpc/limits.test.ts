import { expect, test } from 'vitest'
import * as http2 from '../../../src/doors/grpc/http2/frame-reader.ts'
import { ECHO, NEVER, WATCH } from '../../support/grpc/echo-methods.ts'
import { data, frame, headers, hello, ping, plainBlock, plainText, reset, settings, windowUpdate } from '../../support/grpc/frames.ts'
import { prefixed } from '../../support/grpc/grpc-client.ts'
import { asked, head, INITIAL_WINDOW, served, started } from '../../support/grpc/limited-layer.ts'
import { RawHttp2 } from '../../support/grpc/raw-http2.ts'
import { LAYERS } from '../../support/grpc/serving-calls.ts'
import { HeldNow } from '../../support/service/held-now.ts'
import { until } from '../../support/until.ts'

const HEADER_TABLE_SIZE = 1

test('a message above the limit gets status 8, and its connection goes on', async () => {
  const { client, echo } = await started({ maxMessageBytes: 10 })
  client.send(hello(), asked(1, ECHO, '01234567890'), asked(3, ECHO, '0123456789'))
  expect(await client.ended(1)).toMatchObject({ fields: { 'grpc-status': '8' }, messages: [] })
  expect(await client.ended(3)).toMatchObject(served)
  expect(echo.handled).toBe(1)
})

test('a message that is announced as too large is refused before it comes', async () => {
  const { client } = await started()
  client.send(hello(), headers(1, head(ECHO)), data(1, Buffer.from([0, 0xff, 0xff, 0xff, 0xff]), false))
  expect(await client.ended(1)).toMatchObject({ fields: { 'grpc-status': '8' } })
})

test('messages that are here in part have a limit in sum', async () => {
  const { client } = await started({ maxPartialBytes: 100 })
  const part = prefixed('x'.repeat(200)).subarray(0, 60)
  client.send(hello(), headers(1, head(ECHO)), data(1, part, false), headers(3, head(ECHO)), data(3, part, false))
  expect(await client.ended(3)).toMatchObject({ fields: { 'grpc-status': '8' } })
  client.send(reset(1), headers(5, head(ECHO)), data(5, prefixed('y'.repeat(55)), false), data(5, Buffer.alloc(0)))
  expect(await client.ended(5)).toMatchObject(served)
})

test('streams above the limit are refused, and others go on', async () => {
  const { client, echo } = await started({ maxStreams: 3 })
  client.send(hello(), ...[1, 3, 5, 7].map((id) => asked(id, NEVER, `${id}`)))
  expect(await client.ended(7)).toMatchObject({ resetCode: http2.REFUSED_STREAM })
  expect(echo.waiting.map(({ message }) => message)).toEqual(['1', '3', '5'])
  for (const { message, reply } of echo.waiting) reply({ status: 0, statusMessage: '', message: Buffer.from(message) })
  client.send(asked(9, ECHO, 'next'))
  expect(await client.ended(9)).toMatchObject(served)
  expect(client.result(5)).toMatchObject({ ...served, messages: ['5'] })
})

test.each(LAYERS)('a worker that has too many calls refuses those of connections that have many, on the %s layer', async (layer) => {
  const { client, echo, port } = await started({ maxWorkerStreams: 5, fairStreams: 2 }, {}, layer)
  client.send(hello(), ...[1, 3, 5, 7, 9, 11].map((id) => asked(id, NEVER, `${id}`)))
  expect(await client.ended(11)).toMatchObject({ resetCode: http2.REFUSED_STREAM })
  const second = new RawHttp2(port)
  second.send(hello(), ...[1, 3, 5].map((id) => asked(id, NEVER, `second ${id}`)))
  expect(await second.ended(5)).toMatchObject({ resetCode: http2.REFUSED_STREAM })
  expect(echo.waiting.map(({ message }) => message)).toEqual(['1', '3', '5', '7', '9', 'second 1', 'second 3'])
  client.socket.destroy()
  await until(() => echo.waiting[0]!.isOver())
  second.send(asked(7, ECHO, 'room again'))
  expect(await second.ended(7)).toMatchObject(served)
})

test('a head above the limit ends its stream alone', async () => {
  const { client } = await started({ maxHeaderBytes: 2000 })
  client.send(hello(), headers(1, head(ECHO, [['x-long', 'x'.repeat(2000)]])), asked(3, ECHO, 'a'))
  expect(await client.ended(1)).toMatchObject({ resetCode: http2.ENHANCE_YOUR_CALM })
  expect(await client.ended(3)).toMatchObject(served)
})

test('a head that grows when it is decoded does, too: an HPACK bomb', async () => {
  const { client, echo } = await started()
  const added = Buffer.concat([Buffer.from([0x40]), plainText('bomb'), plainText('x'.repeat(3900))])
  const bomb = Buffer.concat([head(ECHO), added, Buffer.alloc(16_000 - 4100, 0x80 | 62)])
  client.send(hello(), headers(1, bomb, false), data(1, prefixed('a')), asked(3, ECHO, 'next'))
  expect(await client.ended(1)).toMatchObject({ resetCode: http2.ENHANCE_YOUR_CALM })
  expect(await client.ended(3)).toMatchObject({ ...served, messages: ['next'] })
  expect(echo.handled).toBe(1)
})

test.each<[what: string, frames: (block: Buffer) => Buffer[]]>([
  ['of empty frames', () => Array.from({ length: 100 }, () => frame(http2.CONTINUATION, 0, 1))],
  ['of small frames', (block) => [...block].map((byte) => frame(http2.CONTINUATION, 0, 1, Buffer.from([byte])))],
  ['of large frames', () => Array.from({ length: 5 }, () => frame(http2.CONTINUATION, 0, 1, plainBlock([['x', 'y'.repeat(16_000)]])))],
])('a flood of CONTINUATION, %s, ends the connection', async (_what, frames) => {
  const { client, other } = await started()
  client.send(hello(), frame(http2.HEADERS, 0, 1), ...frames(head(ECHO)))
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  await client.closed()
  await other()
})

test('calls that are answered before they are cancelled may be cancelled at will', async () => {
  const { client, echo } = await started({ resetBurst: 10, resetsPerSecond: 0, controlBurst: 100, controlsPerSecond: 0 })
  client.send(hello(), ...Array.from({ length: 500 }, (_, i) => [asked(2 * i + 1, ECHO, 'a'), reset(2 * i + 1)]).flat())
  expect(await client.ended(999)).toMatchObject(served)
  expect([echo.handled, client.goAwayCodes()]).toEqual([500, []])
})

test.each<[what: string, flood: () => Buffer]>([
  ['PING', ping],
  ['SETTINGS', () => settings([INITIAL_WINDOW, 1000])],
  ['PRIORITY', () => frame(http2.PRIORITY, 0, 9, Buffer.alloc(5))],
  ['WINDOW_UPDATE', () => windowUpdate(0, 1)],
  ['RST_STREAM of streams that are over', () => reset(1)],
  ['empty DATA', () => data(3, Buffer.alloc(0), false)],
  ['empty DATA of a call that was refused', () => data(7, Buffer.alloc(0), false)],
  ['frames that nobody knows', () => frame(0x42, 0, 0)],
  ['DATA of streams that are over', () => data(1, Buffer.alloc(1))],
])('a flood of %s ends the connection', async (_what, flood) => {
  const { client, other } = await started({ controlBurst: 1000, controlsPerSecond: 0 })
  const begun = [asked(1, ECHO, 'a'), headers(3, head(ECHO)), headers(7, head('/no.Such/Method'))]
  client.send(hello(), ...begun, ...Array.from({ length: 900 }, flood), asked(9, ECHO, 'b'))
  expect(await client.ended(9)).toMatchObject(served)
  client.send(...Array.from({ length: 200 }, flood))
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  await client.closed()
  await other()
})

const acknowledged = ({ frames }: RawHttp2): number =>
  frames.filter(({ type, flags }) => type === http2.SETTINGS_FRAME && flags === http2.ACK).length
/** Changes of the window of all streams. */
const changes = (count: number): Buffer[] => Array.from({ length: count }, (_, i) => settings([INITIAL_WINDOW, 1000 + (i % 2)]))

test('a change of all windows costs more the more calls there are, and a flood of changes ends the connection early', async () => {
  const { client, echo, other } = await started({ controlsPerSecond: 0 })
  client.send(hello(), ...Array.from({ length: 1000 }, (_, i) => headers(2 * i + 1, head(NEVER))), ...changes(2000))
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  // Each costs one frame, and one more for every 64 of the 1,000 calls: 10,000 frames allow 601 of them.
  expect(acknowledged(client)).toBeLessThan(610)
  expect(echo.handled).toBe(0)
  await other()
})

test('a change of all windows is for each reply that waits a frame of its own', async () => {
  const { client, other } = await started({ controlBurst: 1000, controlsPerSecond: 0 })
  client.send(hello([INITIAL_WINDOW, 0]), ...Array.from({ length: 100 }, (_, i) => asked(2 * i + 1, ECHO, 'x'.repeat(50))))
  await until(() => client.frames.filter(({ type }) => type === http2.HEADERS).length === 100)
  client.send(...Array.from({ length: 30 }, (_, i) => settings([INITIAL_WINDOW, i + 1])))
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  expect(acknowledged(client)).toBeLessThan(12)
  await other()
})

test('a window of the connection that opens and closes costs more the more replies wait for it', async () => {
  const { client, other } = await started({ controlBurst: 1000, controlsPerSecond: 0, controlsPerCall: 0 })
  // The first reply takes all of the connection's window; the others wait for windows of their own.
  const large = prefixed('a'.repeat(70_000))
  const pieces = [0, 1, 2, 3, 4].map((i) => data(1, large.subarray(i * 16_000, (i + 1) * 16_000), i === 4))
  const others = Array.from({ length: 640 }, (_, i) => asked(2 * i + 3, ECHO, 'b'))
  client.send(hello([INITIAL_WINDOW, 0]), headers(1, head(ECHO)), ...pieces, ...others, windowUpdate(1, 65_535))
  await until(() => client.frames.filter(({ type }) => type === http2.HEADERS).length === 641)
  client.send(...Array.from({ length: 200 }, () => [windowUpdate(0, 1), windowUpdate(1, 1)]).flat())
  expect(await client.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
  // A byte is sent for two frames, which cost 12.
  expect(client.frames.filter(({ type, payload }) => type === http2.DATA && payload.length === 1).length).toBeLessThan(90)
  await other()
})

test('a client that widens its windows step by step while it has 1,000 calls is served', async () => {
  const { client, echo } = await started({ controlsPerSecond: 0 })
  client.send(hello(), ...Array.from({ length: 1000 }, (_, i) => asked(2 * i + 1, NEVER, 'a')))
  client.send(...Array.from({ length: 9 }, (_, i) => settings([INITIAL_WINDOW, 2 ** (16 + i)])), ping())
  await until(() => client.frames.some(({ type }) => type === http2.PING))
  for (const { message, reply } of echo.waiting) reply({ status: 0, statusMessage: '', message: Buffer.from(message) })
  expect(await client.ended(1999)).toMatchObject(served)
  expect(client.goAwayCodes()).toEqual([])
})

test('a reply waits for the windows of its client, byte by byte if need be', async () => {
  const { client } = await started()
  client.send(hello([INITIAL_WINDOW, 0]), asked(1, ECHO, 'hello'), asked(3, ECHO, 'other'))
  await until(() => client.frames.filter(({ type }) => type === http2.HEADERS).length === 2)
  expect(client.frames.some(({ type }) => type === http2.DATA)).toBe(false)
  for (let i = 0; i < 10; i++) client.send(windowUpdate(1, 1))
  expect(await client.ended(1)).toMatchObject({ ...served, messages: ['hello'] })
  expect(client.frames.filter(({ type }) => type === http2.DATA).map(({ payload }) => payload.length)).toEqual(new Array(10).fill(1))
  client.send(settings([INITIAL_WINDOW, 100]))
  expect(await client.ended(3)).toMatchObject({ ...served, messages: ['other'] })
})

test('a window that has shrunk below zero opens again', async () => {
  const { client } = await started()
  client.send(hello([INITIAL_WINDOW, 12]), asked(1, NEVER, 'a'), headers(3, head(WATCH)), data(3, prefixed('123456')))
  await until(() => client.result(3).messages.length === 1)
  client.send(settings([INITIAL_WINDOW, 0]))
  client.send(windowUpdate(3, 11), ping())
  await until(() => client.frames.some(({ type }) => type === http2.PING))
  client.send(settings([INITIAL_WINDOW, 1000]))
  client.send(asked(5, ECHO, 'b'))
  expect(await client.ended(5)).toMatchObject(served)
})

test('a client that has no table for fields is told that ours is empty, once', async () => {
  const { client } = await started()
  client.send(hello([HEADER_TABLE_SIZE, 0]), asked(1, ECHO, 'a'), asked(3, ECHO, 'b'))
  expect(await client.ended(3)).toMatchObject(served)
  const blocks = client.frames.filter(({ type }) => type === http2.HEADERS).map(({ payload }) => payload[0])
  expect(blocks).toEqual([0x20, 0, 0x88, 0])
})

test.each<[what: string, bytes: Buffer]>([
  ['nothing', Buffer.alloc(0)],
  ['half a preface', http2.PREFACE.subarray(0, 10)],
  ['a preface without settings', http2.PREFACE],
])('a connection that sends %s is closed', async (_what, bytes) => {
  const { client } = await started({}, { headersTimeoutMs: 100 })
  client.send(bytes)
  await client.closed()
})

test('a frame, and a head, that are never whole end the connection', async () => {
  const { client, port } = await started({}, { headersTimeoutMs: 100 })
  client.send(hello(), headers(1, head(ECHO)).subarray(0, 20))
  const second = new RawHttp2(port)
  second.send(hello(), frame(http2.HEADERS, 0, 1, head(ECHO)))
  await client.closed()
  await second.closed()
})

test('a connection without calls is closed after a while, pings or not', async () => {
  const time = new HeldNow()
  const { client } = await started({}, { keepAliveMs: 200 })
  client.send(hello(), asked(1, ECHO, 'a'))
  await client.ended(1)
  const pings = setInterval(() => client.send(ping()), 20)
  await time.passUntil(client.closed())
  clearInterval(pings)
  expect(client.goAwayCodes()).toEqual([http2.NO_ERROR, http2.NO_ERROR])
})

test('a request in HTTP/1.1 learns what this port is', async () => {
  const { client, other } = await started()
  client.send(Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'))
  await client.closed()
  expect(client.text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n.*This port serves gRPC: HTTP\/2 with prior knowledge\.$/s)
  await other()
})
