import { expect, test } from 'vitest'
import { ECHO, EchoMethods } from '../../support/grpc/echo-methods.ts'
import { callFields, data, headers, hello, integer, plainBlock, plainText, windowUpdate } from '../../support/grpc/frames.ts'
import { prefixed } from '../../support/grpc/grpc-client.ts'
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
