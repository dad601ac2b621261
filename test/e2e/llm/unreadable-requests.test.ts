import { expect, test } from 'vitest'
import { CHAT, HELLO, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatStream } from '../../support/llm/llm-streams.ts'
import { streamingLlm } from '../../support/llm/scripted-llm.ts'
import type { Fields } from '../../support/service/http.ts'

const WORDS = Array.from({ length: 50 }, (_, i) => `w${String(i).padStart(3, '0')}`)
const ASKED = JSON.stringify({ stream: true, messages: HELLO })

/** JSON.parse takes none of these, and common backends do. */
const UNREADABLE: readonly (readonly [what: string, body: string, fields: Fields])[] = [
  ['that begins with a byte order mark', `\ufeff${ASKED}`, []],
  ['with a number that only some know', ASKED.replace('{', '{"temperature":NaN,'), []],
  ['in a coding that edge does not know', '(\xb5/\xfd and more)', [['Content-Encoding', 'zstd']]],
]

test.each(UNREADABLE)('nobody hides a request for a stream in a body %s: it is cut where the rule says', async (_what, body, fields) => {
  const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), {
    config: { max_completion_tokens: 10 },
    streaming: { buffer_tokens: 1 },
  })
  const client = await proxy.open(CHAT, body, fields).untilClosed()
  expect([client.status, client.outcome, client.data.at(-1)]).toEqual([200, 'whole', '[DONE]'])
  expect(client.text).not.toContain('w012')
  expect(await proxy.settlements()).toEqual({ truncated: 1 })
})

test('a request without a body asks for no stream', async () => {
  const text = chatStream(WORDS)
  const proxy = await llmProxy(await streamingLlm(text), { config: { max_completion_tokens: 10 } })
  expect((await proxy.open(CHAT, '').untilClosed()).text).toBe(text)
})
