import { beforeAll, describe, expect, test } from 'vitest'
import { chargedTokens } from '../../../src/llm/usage.ts'
import type { Fields } from '../service/http.ts'
import { thisSuite } from '../service/suite-owner.ts'
import { both, CHAT, HELLO, HELLO_TOKENS, type LlmProxy, llmProxy } from './llm-proxy.ts'
import { countsOf, type LineEnd, parseSse, RECORDED_STREAMS, withLineEnds } from './llm-streams.ts'
import { scriptedLlm } from './scripted-llm.ts'

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }

/** Streams as providers send them, all or those named, in pieces of so many bytes: each is passed on whole, and charged what it says or what is estimated. */
export function recordedStreamsSuite(pieceBytes: number, names?: readonly string[]): void {
  describe(`every dialect and framing, in pieces of ${pieceBytes} bytes`, () => {
    const suite = thisSuite()
    let text = ''
    let plain: LlmProxy
    let adding: LlmProxy
    beforeAll(async () => {
      const backend = await scriptedLlm(async (call) => {
        call.begin()
        await call.writeInPieces(text, pieceBytes)
        call.end()
      }, suite)
      // Each test is a caller of its own.
      const limitKeys = ['header:x-caller']
      plain = await llmProxy(backend, { limitKeys, streaming: { include_partial_usage: false } }, suite)
      adding = await llmProxy(backend, { limitKeys }, suite)
    })

    for (const recorded of RECORDED_STREAMS) {
      if (names && !names.includes(recorded.name)) continue
      const cost = chargedTokens(countsOf(recorded, HELLO_TOKENS))

      test.each<LineEnd>(['\n', '\r\n', '\r'])(
        `${recorded.name}: byte for byte where nothing is to be added, line ends %j`,
        async (lineEnd) => {
          text = withLineEnds(recorded.text, lineEnd)
          const caller = callerOf(recorded.name + lineEnd)
          const client = await plain.stream(CHAT, ASKED, caller)
          expect([client.outcome, client.text]).toEqual(['whole', text])
          expect(await plain.spent(caller)).toEqual(both(cost))
        },
      )

      test(`${recorded.name}: with usage added, every event is there and the same but for its usage`, async () => {
        text = recorded.text
        const caller = callerOf(recorded.name)
        const client = await adding.stream(CHAT, ASKED, caller)
        expect(withoutUsage(client.text)).toEqual(withoutUsage(recorded.text))
        expect(await adding.spent(caller)).toEqual(both(cost))
      })
    }
  })
}

function callerOf(name: string): Fields {
  return [['X-Caller', encodeURIComponent(name)]]
}

function withoutUsage(text: string): unknown[] {
  return parseSse(text).map(({ event, data }) => [event, data.startsWith('{') ? { ...JSON.parse(data), usage: 0 } : data])
}
