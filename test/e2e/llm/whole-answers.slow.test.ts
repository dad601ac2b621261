import { expect, test } from 'vitest'
import { both, CHAT, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { answeringLlm } from '../../support/llm/scripted-llm.ts'

test('an answer of more than two million values passes whole, and what was reserved stands', async () => {
  const body = `{"usage":{"total_tokens":1},"a":[${'0,'.repeat(2_000_000)}0]}`
  const proxy = await llmProxy(await answeringLlm(200, body))
  expect((await proxy.post(CHAT, { messages: HELLO, max_tokens: 500 })).body).toBe(body)
  expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 500))
})
