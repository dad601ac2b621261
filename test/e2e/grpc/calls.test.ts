import { constants } from 'node:http2'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { DecisionPipeline } from '../../../src/decide/decision-pipeline.ts'
import { newGrpcServer } from '../../../src/doors/grpc/grpc-server.ts'
import type { Series } from '../../../src/telemetry/metrics/counter-family.ts'
import { BREAK_STREAM, ECHO, ECHO_LATER, EchoMethods, FAIL, NEVER, REJECT, THROW, WATCH } from '../../support/grpc/echo-methods.ts'
import { type CallResult, call, type Fields, grpcClient, grpcFields, prefixed, resultOf } from '../../support/grpc/grpc-client.ts'
import { grpcOptions, LAYERS, type LayerName, servingCalls } from '../../support/grpc/serving-calls.ts'
import { until } from '../../support/until.ts'

describe.each(LAYERS)('calls on the %s layer', (layer) => {
  test('a message goes in and a message comes out, now or later', async () => {
    const { ask } = await started(layer)
    expect(await ask(ECHO, [prefixed('hello')])).toEqual(reply('hello'))
    expect(await ask(ECHO_LATER, [prefixed('hello')])).toEqual(reply('hello'))
    expect(await ask(ECHO, [prefixed('')])).toEqual(reply(''))
  })

  test('a message may come in any pieces, and may be as large as the limit', async () => {
    const { ask } = await started(layer)
    const large = 'x'.repeat(1024 * 1024)
    expect(await ask(ECHO, pieces(prefixed(large), 60_000))).toEqual(reply(large))
    expect(await ask(ECHO, pieces(prefixed('hello'), 1))).toEqual(reply('hello'))
  })

  test('a larger one is refused with status 8', async () => {
    const { ask, echo } = await started(layer)
    const { status } = await ask(ECHO, pieces(prefixed(Buffer.alloc(1024 * 1024 + 1)), 60_000))
    expect([status, echo.handled]).toEqual([8, 0])
  })

  test.each<[what: string, status: number, body: readonly Buffer[], more?: Fields]>([
    ['no message', 12, []],
    ['two messages', 12, [prefixed('a'), prefixed('b')]],
    ['bytes behind the message', 12, [prefixed('a'), Buffer.from('b')]],
    ['half a prefix', 13, [Buffer.alloc(3)]],
    ['half a message', 13, [prefixed('hello').subarray(0, 7)]],
    ['a compressed message', 12, [prefixed('a', 1)], { 'grpc-encoding': 'gzip' }],
    ['a compressed message of which nothing says how', 13, [prefixed('a', 1)]],
    ['a flag that does not exist', 13, [prefixed('a', 2)]],
  ])('%s: status %i, and no method is called', async (_what, status, body, more) => {
    const { ask, echo } = await started(layer)
    expect(await ask(ECHO, body, more)).toMatchObject({ httpStatus: 200, status, messages: [] })
    expect(echo.handled).toBe(0)
    expect(await ask(ECHO, [prefixed('next')])).toEqual(reply('next'))
  })

  test.each<[what: string, http: number, status: number, fields: Fields]>([
    ['an unknown method', 200, 12, grpcFields('/test.Echo/Nothing')],
    ['GET', 405, 13, { ...grpcFields(ECHO), ':method': 'GET' }],
    ['another content-type', 415, 3, grpcFields(ECHO, { 'content-type': 'application/json' })],
    ['gRPC-Web', 415, 3, grpcFields(ECHO, { 'content-type': 'application/grpc-web+proto' })],
    ['a timeout that is none', 200, 13, grpcFields(ECHO, { 'grpc-timeout': '1 second' })],
    ['a timeout without digits', 200, 13, grpcFields(ECHO, { 'grpc-timeout': 'm' })],
    ['a timeout of nine digits', 200, 13, grpcFields(ECHO, { 'grpc-timeout': '100000000m' })],
    ['a repeated timeout', 200, 13, grpcFields(ECHO, { 'grpc-timeout': ['1S', '2S'] })],
    ['a deadline that has passed already', 200, 4, grpcFields(ECHO, { 'grpc-timeout': '0m' })],
  ])('%s: HTTP %i, status %i, and no method is called', async (_what, httpStatus, status, fields) => {
    const { ask, session, echo } = await started(layer)
    expect(await call(session, fields, prefixed('a'))).toMatchObject({ httpStatus, status, messages: [] })
    expect(echo.handled).toBe(0)
    expect(await ask(ECHO, [prefixed('next')])).toEqual(reply('next'))
  })

  test.each(['application/grpc+proto', 'application/grpc; charset=utf-8'])('%s is gRPC', async (type) => {
    const { ask } = await started(layer)
    expect(await ask(ECHO, [prefixed('a')], { 'content-type': type })).toEqual(reply('a'))
  })

  test('a message that is announced as compressed but is not is served', async () => {
    const { ask } = await started(layer)
    expect(await ask(ECHO, [prefixed('a')], { 'grpc-encoding': 'gzip' })).toEqual(reply('a'))
  })

  test('a status message may have any characters', async () => {
    const { ask } = await started(layer)
    const text = '100 % größer\r\nthan\u0000 “before” 🙂'
    expect(await ask(FAIL, [prefixed(text)])).toMatchObject({ status: 14, statusMessage: text })
  })

  test('a call whose deadline passes gets status 4, and its method knows', async () => {
    const { ask, echo } = await started(layer)
    // A machine that is busy for longer than the deadline never calls the method.
    await until(async () => {
      expect(await ask(NEVER, [prefixed('a')], { 'grpc-timeout': '50m' })).toMatchObject({ status: 4, messages: [] })
      return echo.waiting.length > 0
    })
    expect(echo.waiting[0]!.isOver()).toBe(true)
    echo.waiting[0]!.reply({ status: 0, statusMessage: '', message: Buffer.from('late') })
    expect(await ask(ECHO, [prefixed('next')])).toEqual(reply('next'))
  })

  test('a message that does not arrive before the deadline gets status 4, and no method is called', async () => {
    const { session, echo } = await started(layer)
    const stream = session.request({ ...grpcFields(NEVER, { 'grpc-timeout': '50m' }) }, { endStream: false })
    stream.write(prefixed('hello').subarray(0, 6))
    expect(await resultOf(stream)).toMatchObject({ status: 4 })
    expect(echo.handled).toBe(0)
  })

  test('a message has only so long to arrive', async () => {
    const { session, echo } = await started(layer, { requestTimeoutMs: 50 })
    const stream = session.request({ ...grpcFields(NEVER) }, { endStream: false })
    expect(await resultOf(stream)).toMatchObject({ status: 4, statusMessage: 'the message took too long to arrive' })
    expect(echo.handled).toBe(0)
  })

  test('the method of a cancelled call knows, and others go on', async () => {
    const { ask, session, echo } = await started(layer)
    const cancelled = session.request({ ...grpcFields(NEVER) }, { endStream: false })
    cancelled.on('error', () => {})
    cancelled.end(prefixed('cancelled'))
    const other = ask(NEVER, [prefixed('other')])
    await until(() => echo.waiting.length === 2)
    expect(echo.waiting.map(({ isOver }) => isOver())).toEqual([false, false])
    cancelled.close(constants.NGHTTP2_CANCEL)
    await until(() => echo.waiting[0]!.isOver())
    for (const { message, reply } of echo.waiting) reply({ status: 0, statusMessage: '', message: Buffer.from(message) })
    expect(await other).toEqual(reply('other'))
  })

  test.each([THROW, REJECT, BREAK_STREAM])(
    'a method that fails (%s) is told of once, gets status 13, and harms no other call',
    async (path) => {
      const { ask, echo, failures } = await started(layer)
      const other = ask(NEVER, [prefixed('other')])
      await until(() => echo.waiting.length === 1)
      expect(await ask(path, [prefixed('a')])).toMatchObject({ status: 13, statusMessage: 'internal_error', messages: [] })
      expect(failures).toEqual([new Error('a bug')])
      echo.waiting[0]!.reply({ status: 0, statusMessage: '', message: Buffer.from('other') })
      expect(await other).toEqual(reply('other'))
    },
  )

  test('a method that fails when its caller has gone is told of, and the connection goes on', async () => {
    const { ask, session, echo, failures } = await started(layer)
    const cancelled = session.request({ ...grpcFields(NEVER) }, { endStream: false })
    cancelled.on('error', () => {})
    cancelled.end(prefixed('cancelled'))
    await until(() => echo.waiting.length === 1)
    cancelled.close(constants.NGHTTP2_CANCEL)
    await until(() => echo.waiting[0]!.isOver())
    echo.waiting[0]!.fail(new Error('too late'))
    expect(await ask(ECHO, [prefixed('next')])).toEqual(reply('next'))
    expect(failures).toEqual([new Error('too late')])
  })

  test('a stream sends until its method ends it', async () => {
    const { session, echo } = await started(layer)
    const result = call(session, grpcFields(WATCH), prefixed('first'))
    await until(() => echo.watchers.size === 1)
    const [watcher] = echo.watchers
    watcher!.send(Buffer.from('second'))
    watcher!.end(0, '')
    watcher!.send(Buffer.from('too late'))
    expect(await result).toMatchObject({ status: 0, messages: ['first', 'second'] })
    await until(() => echo.watchers.size === 0)
  })

  test('a stream ends when the client cancels it, or its connection is gone', async () => {
    const { session, echo } = await started(layer)
    const cancelled = session.request({ ...grpcFields(WATCH) }, { endStream: false })
    cancelled.on('error', () => {})
    cancelled.end(prefixed('a'))
    void call(session, grpcFields(WATCH), prefixed('b'))
    await until(() => echo.watchers.size === 2)
    const [first, second] = echo.watchers
    cancelled.close(constants.NGHTTP2_CANCEL)
    await until(() => echo.watchers.size === 1)
    expect([first!.isOver, second!.isOver]).toEqual([true, false])
    session.destroy()
    await until(() => echo.watchers.size === 0)
    expect(second!.isOver).toBe(true)
  })

  test('a stream past its deadline ends with status 4', async () => {
    const { ask, echo } = await started(layer)
    let messages: readonly string[] = []
    await until(async () => {
      const result = await ask(WATCH, [prefixed('a')], { 'grpc-timeout': '50m' })
      expect(result.status).toBe(4)
      messages = result.messages
      return messages.length > 0
    })
    expect(messages).toEqual(['a'])
    await until(() => echo.watchers.size === 0)
  })

  test('trailers of a client change nothing', async () => {
    const { session } = await started(layer)
    const stream = session.request({ ...grpcFields(ECHO) }, { endStream: false, waitForTrailers: true } as object)
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-more': '1' }))
    stream.end(prefixed('a'))
    expect(await resultOf(stream)).toEqual(reply('a'))
  })

  test('many calls at once get each its own reply', async () => {
    const { ask } = await started(layer)
    const texts = Array.from({ length: 300 }, (_, i) => `call ${i}`)
    const results = await Promise.all(texts.map((text, i) => ask(i % 2 === 0 ? ECHO : ECHO_LATER, [prefixed(text)])))
    expect(results).toEqual(texts.map(reply))
  })
})

test.each(LAYERS)('the log has what fails in a method, once, on the %s layer', async (wire) => {
  const logged: unknown[] = []
  const broken = new Error('a bug')
  const server = newGrpcServer(grpcOptions(), {
    pipeline: { logFailure: (error: unknown) => void logged.push(error) } as DecisionPipeline,
    isReady: () => {
      throw broken
    },
    wire,
    ignoredLimits: { count: 0 } as Series,
  })
  onTestFinished(() => server.close(0))
  const { port } = (await server.listen({ port: 0, host: '127.0.0.1' }))!
  expect(await call(grpcClient(port), grpcFields('/grpc.health.v1.Health/Check'), prefixed(''))).toMatchObject({ status: 13 })
  expect(logged).toEqual([broken])
})

interface Started {
  readonly echo: EchoMethods
  readonly session: ReturnType<typeof grpcClient>
  readonly failures: readonly unknown[]
  ask(path: string, body: readonly Uint8Array[], more?: Fields): Promise<CallResult>
}

async function started(layer: LayerName, timeouts = {}): Promise<Started> {
  const echo = new EchoMethods()
  const { port, failures } = await servingCalls(layer, { methods: echo.methods, timeouts })
  const session = grpcClient(port)
  return { echo, session, failures, ask: (path, body, more) => call(session, grpcFields(path, more), ...body) }
}

function reply(message: string): CallResult {
  return { httpStatus: 200, status: 0, statusMessage: '', messages: [message], resetCode: 0 }
}

function pieces(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
}
