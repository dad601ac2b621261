import { constants } from 'node:http2'
import { describe, expect, test } from 'vitest'
import { ECHO, ECHO_LATER, NEVER, WATCH } from '../../support/grpc/echo-methods.ts'
import { call, type Fields, grpcFields, prefixed } from '../../support/grpc/grpc-client.ts'
import { LAYERS } from '../../support/grpc/serving-calls.ts'
import { reply, started } from '../../support/grpc/started-layer.ts'
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
})

function pieces(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
}
