import { expect, test } from 'vitest'
import { Random } from '../random/random.ts'
import { until } from '../until.ts'
import { type Conversation, conversationOf } from './conversation.ts'
import { EchoMethods } from './echo-methods.ts'
import { RawHttp2 } from './raw-http2.ts'
import { servingCalls } from './serving-calls.ts'

const AT_ONCE = 10
const COMPARED = [':status', 'content-type', 'grpc-status', 'grpc-message']

/** Has the same conversations with both layers. */
export function sameLayersSuite(conversations: number, firstSeed: number): void {
  test('whatever is called, however it is written and cut, both layers give the same results', { timeout: 300_000 }, async () => {
    const methods = new EchoMethods().methods
    const own = await servingCalls('own', { methods })
    const node = await servingCalls('node', { methods })
    const statuses = new Set<string | undefined>()
    for (let done = 0; done < conversations; done += AT_ONCE) {
      const seeds = Array.from({ length: AT_ONCE }, (_, i) => firstSeed + done + i)
      await Promise.all(
        seeds.map(async (seed) => {
          const conversation = conversationOf(new Random(seed))
          const [ownResults, nodeResults] = await Promise.all([own, node].map(({ port }) => converse(port, conversation)))
          expect({ seed, results: ownResults }).toEqual({ seed, results: nodeResults })
          for (const { fields } of ownResults!) statuses.add(fields['grpc-status'])
        }),
      )
    }
    // Or else the conversations are too much alike.
    expect([...statuses].sort()).toEqual(['0', '12', '13', '14', '3', '4', '8', undefined].sort())
  })
}

interface ComparedResult {
  readonly fields: Readonly<Record<string, string | undefined>>
  readonly messages: readonly string[]
  /** Undefined where the call got its status. */
  readonly resetCode: number | undefined
}

async function converse(port: number, { chunks, streamIds }: Conversation): Promise<ComparedResult[]> {
  const client = new RawHttp2(port)
  client.socket.setNoDelay(true)
  for (const chunk of chunks) {
    client.send(chunk)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await until(() => client.isClosed || streamIds.every((id) => client.result(id).hasEnded || client.result(id).resetCode !== undefined))
  client.socket.destroy()
  expect(client.goAwayCodes()).toEqual([])
  return streamIds.map((id) => {
    const { fields, messages, hasEnded, resetCode } = client.result(id)
    return {
      fields: hasEnded ? Object.fromEntries(COMPARED.map((name) => [name, fields[name]])) : {},
      messages,
      resetCode: hasEnded ? undefined : resetCode,
    }
  })
}
