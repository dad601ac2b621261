import { describe, expect, test } from 'vitest'
import * as http2 from '../../../src/doors/grpc/http2/frame-reader.ts'
import { ECHO, EchoMethods, NEVER, WATCH } from '../../support/grpc/echo-methods.ts'
import { callFields, data, frame, headers, hello, plainBlock } from '../../support/grpc/frames.ts'
import { call, grpcClient, grpcFields, prefixed } from '../../support/grpc/grpc-client.ts'
import { RawHttp2 } from '../../support/grpc/raw-http2.ts'
import { LAYERS, servingCalls } from '../../support/grpc/serving-calls.ts'
import { HeldNow } from '../../support/service/held-now.ts'
import { until } from '../../support/until.ts'

const LAST_STREAM = 2 ** 31 - 1
const asked = (streamId: number, path: string, message: string): Buffer =>
  Buffer.concat([headers(streamId, plainBlock(callFields(path))), data(streamId, prefixed(message))])
const goAways = (client: RawHttp2): number[] =>
  client.frames.filter(({ type }) => type === http2.GOAWAY).map(({ payload }) => payload.readUInt32BE(0))
/** As clients do. */
const answerPings = (client: RawHttp2): void => {
  for (const { type, flags, payload } of client.frames.splice(0))
    if (type === http2.PING && flags === 0) client.send(frame(http2.PING, http2.ACK, 0, payload))
}

describe.each(LAYERS)('on the %s layer', (layer) => {
  test('draining asks connections to go, serves their calls, and closes them', async () => {
    const { server, port, echo } = await started()
    const session = grpcClient(port)
    let hasGoneAway = false
    session.on('goaway', () => {
      hasGoneAway = true
    })
    const waiting = call(session, grpcFields(NEVER), prefixed('a'))
    await until(() => echo.waiting.length === 1)
    server.drain()
    await until(() => hasGoneAway)
    echo.waiting[0]!.reply({ status: 0, statusMessage: '', message: Buffer.from('late') })
    expect(await waiting).toMatchObject({ status: 0, messages: ['late'] })
    await until(() => session.destroyed)
  })

  test('a connection that comes while the server drains has one call', async () => {
    const { server, port } = await started()
    server.drain()
    const client = new RawHttp2(port)
    client.send(hello(), asked(1, ECHO, 'a'))
    expect(await client.ended(1)).toMatchObject({ fields: { 'grpc-status': '0' } })
    await client.closed()
  })

  test('closing lets calls end, ends streams, and closes what is idle at once', async () => {
    const { server, port, echo } = await started()
    const idle = new RawHttp2(port)
    idle.send(hello())
    const silent = new RawHttp2(port)
    const session = grpcClient(port)
    const waiting = call(session, grpcFields(NEVER), prefixed('a'))
    const watching = call(session, grpcFields(WATCH), prefixed('b'))
    await until(() => echo.waiting.length === 1 && echo.watchers.size === 1 && idle.frames.length > 0)
    let isClosed = false
    const closed = server.close(600_000).then(() => {
      isClosed = true
    })
    expect(await watching).toMatchObject({ status: 14, messages: ['b'] })
    await idle.closed()
    await silent.closed()
    expect(isClosed).toBe(false)
    echo.waiting[0]!.reply({ status: 0, statusMessage: '', message: Buffer.from('late') })
    expect(await waiting).toMatchObject({ status: 0, messages: ['late'] })
    await closed
  })

  test('what has not ended in time is cut', async () => {
    const { server, port, echo } = await started()
    const session = grpcClient(port)
    const waiting = call(session, grpcFields(NEVER), prefixed('a'))
    await until(() => echo.waiting.length === 1)
    await server.close(10)
    expect(await waiting).toMatchObject({ status: undefined, messages: [] })
    await until(() => echo.waiting[0]!.isOver())
  })

  test('connections without calls are closed after a while', async () => {
    const time = new HeldNow()
    const { port } = await started({}, { keepAliveMs: 100 })
    const client = new RawHttp2(port)
    client.send(hello(), asked(1, ECHO, 'a'))
    expect(await client.ended(1)).toMatchObject({ messages: ['a'] })
    await time.passUntil(client.closed())
  })

  test('an old connection is asked to go', async () => {
    const time = new HeldNow()
    const { port } = await started({ maxAgeMs: 100 })
    const client = new RawHttp2(port)
    client.send(hello(), asked(1, ECHO, 'a'))
    expect(await client.ended(1)).toMatchObject({ messages: ['a'] })
    await time.passUntil(client.closed())
    expect(goAways(client).at(-1)).toBe(1)
  })

  test('a connection for which there is no place is told so, and idle ones make room', async () => {
    const { port, refused, echo } = await started({}, {}, 1)
    const first = new RawHttp2(port)
    first.send(hello(), asked(1, NEVER, 'a'))
    await until(() => echo.waiting.length === 1)
    const second = new RawHttp2(port)
    second.send(hello(), asked(1, ECHO, 'b'))
    expect(await second.goAway()).toBe(http2.ENHANCE_YOUR_CALM)
    await second.closed()
    expect(refused()).toBe(1)
    echo.waiting[0]!.reply({ status: 0, statusMessage: '', message: Buffer.from('late') })
    await first.ended(1)
    const third = new RawHttp2(port)
    third.send(hello(), asked(1, ECHO, 'c'))
    expect(await third.ended(1)).toMatchObject({ messages: ['c'] })
    await first.closed()
  })

  test('a connection that says nothing is closed', async () => {
    const { port } = await started({}, { headersTimeoutMs: 100 })
    await new RawHttp2(port).closed()
  })

  async function started(
    limits = {},
    timeouts = {},
    slots?: number,
  ): Promise<Awaited<ReturnType<typeof servingCalls>> & { echo: EchoMethods }> {
    const echo = new EchoMethods()
    const running = await servingCalls(layer, { methods: echo.methods, limits, timeouts, ...(slots && { slots }) })
    return { ...running, echo }
  }
})

test('a call that our own layer gets when it has just asked an idle client to go is served', async () => {
  const time = new HeldNow()
  const echo = new EchoMethods()
  const { port } = await servingCalls('own', { methods: echo.methods, timeouts: { keepAliveMs: 50 } })
  const client = new RawHttp2(port)
  client.send(hello(), asked(1, ECHO, 'a'))
  await client.ended(1)
  time.advance(100)
  await until(() => goAways(client).length === 1)
  expect(goAways(client)).toEqual([LAST_STREAM])
  client.send(asked(3, ECHO, 'b'))
  expect(await client.ended(3)).toMatchObject({ fields: { 'grpc-status': '0' }, messages: ['b'] })
  answerPings(client)
  await client.closed()
})

test('draining on our own layer also serves calls that were on their way when the client was asked to go', async () => {
  // However long they are on their way
  new HeldNow()
  const echo = new EchoMethods()
  const { server, port } = await servingCalls('own', { methods: echo.methods })
  const client = new RawHttp2(port)
  client.send(hello(), asked(1, NEVER, 'a'))
  await until(() => echo.waiting.length === 1)
  server.drain()
  await until(() => goAways(client).length === 1)
  expect(goAways(client)).toEqual([LAST_STREAM])
  client.send(asked(3, ECHO, 'b'))
  expect(await client.ended(3)).toMatchObject({ fields: { 'grpc-status': '0' }, messages: ['b'] })
  answerPings(client)
  await until(() => goAways(client).length === 1)
  expect(goAways(client)).toEqual([3])
  echo.waiting[0]!.reply({ status: 0, statusMessage: '', message: Buffer.from('late') })
  expect(await client.ended(1)).toMatchObject({ fields: { 'grpc-status': '0' }, messages: ['late'] })
  await client.closed()
})
