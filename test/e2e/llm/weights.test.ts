import { expect, test } from 'vitest'
import { CHAT, HELLO, llmProxy, MESSAGES } from '../../support/llm/llm-proxy.ts'
import { sse } from '../../support/llm/llm-streams.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'

const ASKED = { model: 'm', messages: HELLO, max_tokens: 100 }
const both = (tokens: number) => ({ minute: tokens, day: tokens })

const CACHED = {
  input_tokens: 9,
  cache_read_input_tokens: 40,
  cache_creation_input_tokens: 20,
  cache_creation: { ephemeral_5m_input_tokens: 5, ephemeral_1h_input_tokens: 15 },
}
const STREAM = [
  sse({ type: 'message_start', message: { usage: { ...CACHED, output_tokens: 1 } } }, 'message_start'),
  sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, 'content_block_start'),
  ...Array.from({ length: 10 }, () =>
    sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'abcd' } }, 'content_block_delta'),
  ),
  sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 7 } }, 'message_delta'),
  sse({ type: 'message_stop' }, 'message_stop'),
].join('')

test('without count every token counts once, whether or not Anthropic caches it', async () => {
  const whole = await llmProxy(await answeringLlm(200, { type: 'message', content: [], usage: { ...CACHED, output_tokens: 7 } }))
  await whole.post(MESSAGES, ASKED)
  expect(await whole.spent()).toEqual(both(9 + 40 + 20 + 7))
  const streamed = await llmProxy(await streamingLlm(STREAM))
  await streamed.stream(MESSAGES, ASKED)
  expect(await streamed.spent()).toEqual(both(9 + 40 + 20 + 7))
})

test('with count each kind of token counts by its weight, reserved and settled', async () => {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, { config: { count: { cached_input: 0.1, cache_write: 1.25, output: 3 } } })
  const answer = proxy.post(CHAT, ASKED)
  const call = await backend.next()
  // 3 × 1.25 + 100 × 3
  expect((await proxy.held()).day).toBe(304)
  call.answer(200, {
    choices: [],
    usage: { prompt_tokens: 50, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 25, cache_write_tokens: 10 } },
  })
  expect((await answer).status).toBe(200)
  // 15 + 25 × 0.1 + 10 × 1.25 + 7 × 3
  expect((await proxy.spent()).day).toBe(51)
})

test('a stream that is cut shows the tokens of its own API, and is charged all of them by their weights', async () => {
  const config = { max_completion_tokens: 4, count: { output: 5 } }
  const proxy = await llmProxy(await streamingLlm(STREAM), { config, streaming: { buffer_tokens: 1 } })
  const client = await proxy.stream(MESSAGES, ASKED)
  expect(client.text).toContain('"usage":{"input_tokens":9,"output_tokens":5}')
  expect((await proxy.spent()).day).toBe(9 + 40 + 20 + 5 * 5)
})
