import { expect, test } from 'vitest'
import { Random } from '../random/random.ts'
import { until } from '../until.ts'
import { conversationOf } from './conversation.ts'
import { ECHO, EchoMethods } from './echo-methods.ts'
import { callFields, data, headers, hello, plainBlock, windowUpdate } from './frames.ts'
import { prefixed } from './grpc-client.ts'
import { RawHttp2 } from './raw-http2.ts'
import { servingCalls } from './serving-calls.ts'

/** Conversations with damaged bytes, side by side with calls that nothing is wrong with. */
export function damagedCallsSuite(conversations: number, firstSeed: number): void {
  test('whatever bytes come, other connections are served, and nothing is left of them', { timeout: 300_000 }, async () => {
    const echo = new EchoMethods()
    const { port } = await servingCalls('own', { methods: echo.methods, limits: { maxPartialBytes: 20_000 } })
    const other = new RawHttp2(port)
    other.send(hello(), windowUpdate(0, 2 ** 30))
    for (let i = 0; i < conversations; i++) {
      const random = new Random(firstSeed + i)
      const client = new RawHttp2(port)
      for (const chunk of conversationOf(random).chunks) client.send(damaged(chunk, random))
      other.send(headers(2 * i + 1, plainBlock(callFields(ECHO))), data(2 * i + 1, prefixed(`${i}`)))
      expect(await other.ended(2 * i + 1)).toMatchObject({ fields: { 'grpc-status': '0' }, messages: [`${i}`] })
      if (i % 10 === 0) client.socket.end()
      else client.socket.destroy()
    }
    // All memory for messages in part is free again.
    const large = prefixed('x'.repeat(19_995))
    let id = 2 * conversations + 1
    await until(async () => {
      const split = [data(id, large.subarray(0, 10_000), false), data(id, large.subarray(10_000))]
      other.send(headers(id, plainBlock(callFields(ECHO))), ...split)
      const { fields } = await other.ended(id)
      id += 2
      return fields['grpc-status'] === '0'
    })
  })
}

function damaged(chunk: Buffer, random: Random): Buffer {
  if (chunk.length === 0 || random.next() < 0.3) return chunk
  const at = random.below(chunk.length)
  const [before, rest] = [chunk.subarray(0, at), chunk.subarray(at)]
  switch (random.below(4)) {
    case 0:
      return Buffer.concat([before, Buffer.from([random.below(256)]), rest.subarray(1)])
    case 1:
      return Buffer.concat([before, rest.subarray(random.below(20))])
    case 2:
      return Buffer.concat([before, rest.subarray(0, random.below(50)), rest])
    default:
      return Buffer.concat([before, Buffer.from(Array.from({ length: random.below(30) }, () => random.below(256))), rest])
  }
}
