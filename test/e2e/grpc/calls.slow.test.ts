import { constants } from 'node:http2'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { DecisionPipeline } from '../../../src/decide/decision-pipeline.ts'
import { newGrpcServer } from '../../../src/doors/grpc/grpc-server.ts'
import type { Series } from '../../../src/telemetry/metrics/metric-families.ts'
import { BREAK_STREAM, ECHO, ECHO_LATER, FAIL, NEVER, REJECT, THROW, WATCH } from '../../support/grpc/echo-methods.ts'
import { call, grpcClient, grpcFields, prefixed, resultOf } from '../../support/grpc/grpc-client.ts'
import { grpcOptions, LAYERS } from '../../support/grpc/serving-calls.ts'
import { reply, started } from '../../support/grpc/started-layer.ts'
import { until } from '../../support/until.ts'

describe.each(LAYERS)('calls on the %s layer', (layer) => {
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

test('the log has what fails in a method, once', async () => {
  const logged: unknown[] = []
  const broken = new Error('a bug')
  const server = newGrpcServer(grpcOptions(), {
    pipeline: { logFailure: (error: unknown) => void logged.push(error) } as DecisionPipeline,
    isReady: () => {
      throw broken
    },
    ignoredLimits: { count: 0 } as Series,
  })
  onTestFinished(() => server.close(0))
  const { port } = (await server.listen({ port: 0, host: '127.0.0.1' }))!
  expect(await call(grpcClient(port), grpcFields('/grpc.health.v1.Health/Check'), prefixed(''))).toMatchObject({ status: 13 })
  expect(logged).toEqual([broken])
})
