import { describe, expect, test } from 'vitest'
import { CHAT, fakeLlm, HELLO, MESSAGES, RESPONSES } from './llm-proxy.ts'
import { moneyProxy } from './money-proxy.ts'
import { scriptedLlm } from './scripted-llm.ts'

// HELLO is three tokens. Of `big`, a token of the prompt costs 0.01, one from the cache 0.005, one written to it 0.03, one generated 0.02.
// A reservation has the dearest of the prices of the prompt.
export const BIG = { model: 'big-2', messages: HELLO, max_tokens: 100 }
export const RESERVED = 3 * 0.03 + 100 * 0.02
const INPUT = { model: 'big-2', input: 'hello there!', max_output_tokens: 100 }

export const DIALECTS = [
  ['chat', CHAT, { ...BIG, stream_options: { include_usage: true } }],
  ['Responses', RESPONSES, INPUT],
  ['Anthropic', MESSAGES, BIG],
] as const

/** What a request of a dialect costs, in money. */
export function pricedDialectsSuite(dialects: readonly (typeof DIALECTS)[number][]): void {
  describe.each(dialects)('%s', (_name, path, body) => {
    test.each([true, false])('costs what its usage says, with cached tokens priced apart; streamed: %s', async (isStream) => {
      const backend = await fakeLlm({ tokens: 10, cachedTokens: 2 })
      const proxy = await moneyProxy(backend)
      if (isStream) await proxy.stream(path, body)
      else expect((await proxy.post(path, body)).status).toBe(200)
      expect(await proxy.leftWhenQuiet()).toBe(100 - (1 * 0.01 + 2 * 0.005 + 10 * 0.02))
    })

    test('is reserved at the prices of its model before it is forwarded, and given back where the backend fails', async () => {
      const backend = await scriptedLlm()
      const proxy = await moneyProxy(backend)
      const answer = proxy.post(path, body)
      const call = await backend.next()
      expect(await proxy.left()).toBe(100 - RESERVED)
      call.answer(500, { error: { message: 'broken' } })
      expect((await answer).status).toBe(500)
      expect(await proxy.leftWhenQuiet()).toBe(100)
    })
  })
}
