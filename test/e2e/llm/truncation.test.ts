import { describe, expect, test } from 'vitest'
import {
  both,
  CHAT,
  COMPLETIONS,
  fakeLlm,
  HELLO,
  HELLO_TOKENS,
  type LlmProxyOptions,
  llmProxy,
  MESSAGES,
  RESPONSES,
} from '../../support/llm/llm-proxy.ts'
import { anthropicStream, chatChunk, chatStream, responsesStream, sse } from '../../support/llm/llm-streams.ts'
import { scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

const ASKED = { stream: true, messages: HELLO }
const WORDS = Array.from({ length: 50 }, (_, i) => `w${String(i).padStart(3, '0')}`)

/** Ten tokens are allowed, and every token is looked at: the eleventh cuts. */
function tight(streaming: object = {}): LlmProxyOptions {
  return { config: { max_completion_tokens: 10 }, streaming: { buffer_tokens: 1, ...streaming } }
}
const CHARGED = HELLO_TOKENS + 11
const USAGE = { prompt_tokens: 3, completion_tokens: 11, total_tokens: 14 }

describe('graceful_close', () => {
  test('chat: the specified chunk with what the stream itself says, then [DONE]', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), tight({ include_partial_usage: false }))
    const client = await proxy.stream(CHAT, ASKED)
    const head = { id: 'chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG', object: 'chat.completion.chunk', created: 1741570283 }
    const closing = { ...head, model: 'gpt-4o-2024-08-06', choices: [{ index: 0, delta: {}, finish_reason: 'length' }] }
    const passed = chatStream(WORDS)
      .split(/(?<=\n\n)/)
      .slice(0, 11)
    expect([client.outcome, client.text]).toEqual(['whole', `${passed.join('')}${sse(closing)}data: [DONE]\n\n`])
    expect(await proxy.spent()).toEqual(both(CHARGED))
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
  })

  test('chat: the closing chunk has usage where it is asked for, the truncating event in it', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), tight())
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.data.at(-2)).toMatchObject({ choices: [{ index: 0, delta: {}, finish_reason: 'length' }], usage: USAGE })
    expect(client.text.endsWith('\n\ndata: [DONE]\n\n')).toBe(true)
    expect(client.text).toContain('w009')
    expect(client.text).not.toContain('w010')
    expect(await proxy.spent()).toEqual(both(USAGE.total_tokens))
  })

  test('completions: a choice with text', async () => {
    const proxy = await llmProxy(await fakeLlm(), tight())
    const client = await proxy.stream(COMPLETIONS, { prompt: 'hello there!' })
    expect(client.data.slice(-2)).toEqual([
      {
        id: 'cmpl-fake',
        object: 'text_completion',
        created: expect.any(Number),
        model: 'fake-llm',
        choices: [{ index: 0, text: '', logprobs: null, finish_reason: 'length' }],
        usage: USAGE,
      },
      '[DONE]',
    ])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('Responses: each open part and item ends, then response.incomplete with the response so far', async () => {
    const proxy = await llmProxy(await streamingLlm(responsesStream(WORDS)), tight())
    const client = await proxy.stream(RESPONSES, { input: 'hello there!' })
    expect(client.events.slice(-4, -1).map(({ event }) => event)).toEqual([
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
    ])
    const last = client.events.at(-1)!
    expect(last.event).toBe('response.incomplete')
    expect(JSON.parse(last.data)).toMatchObject({
      type: 'response.incomplete',
      sequence_number: 17,
      response: {
        id: 'resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654',
        object: 'response',
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        usage: { input_tokens: 3, output_tokens: 11, total_tokens: 14 },
      },
    })
    expect(client.text).not.toContain('[DONE]')
    expect(client.text).not.toContain('w010')
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('Anthropic: the open block stops, then message_delta with max_tokens, then message_stop', async () => {
    const proxy = await llmProxy(await streamingLlm(anthropicStream(WORDS)), tight())
    const client = await proxy.stream(MESSAGES, ASKED)
    expect(client.events.slice(-3).map(({ event, data }) => [event, JSON.parse(data)])).toEqual([
      ['content_block_stop', { type: 'content_block_stop', index: 0 }],
      [
        'message_delta',
        {
          type: 'message_delta',
          delta: { stop_reason: 'max_tokens', stop_sequence: null },
          usage: { input_tokens: 25, output_tokens: 11 },
        },
      ],
      ['message_stop', { type: 'message_stop' }],
    ])
    expect(client.text).not.toContain('[DONE]')
    expect(await proxy.spent()).toEqual(both(25 + 100 + 11))
  })
})

describe('error_chunk', () => {
  const ERROR = { message: 'max completion tokens exceeded', type: 'rate_limit_error', code: 'completion_tokens_exceeded' }

  test('chat: exactly the specified chunk, then [DONE]', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), tight({ on_limit_exceeded: 'error_chunk' }))
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text.endsWith(`\n\n${sse({ error: ERROR, usage: USAGE })}data: [DONE]\n\n`)).toBe(true)
    expect(client.outcome).toBe('whole')
    expect(await proxy.spent()).toEqual(both(CHARGED))
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
  })

  test('Responses: an event named error', async () => {
    const proxy = await llmProxy(await streamingLlm(responsesStream(WORDS)), tight({ on_limit_exceeded: 'error_chunk' }))
    const client = await proxy.stream(RESPONSES, { input: 'hello there!' })
    const last = client.events.at(-1)!
    expect([last.event, JSON.parse(last.data)]).toEqual([
      'error',
      {
        type: 'error',
        code: ERROR.code,
        message: ERROR.message,
        param: null,
        sequence_number: 14,
        usage: { input_tokens: 3, output_tokens: 11, total_tokens: 14 },
      },
    ])
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })

  test('Anthropic: an event named error', async () => {
    const proxy = await llmProxy(await streamingLlm(anthropicStream(WORDS)), tight({ on_limit_exceeded: 'error_chunk' }))
    const client = await proxy.stream(MESSAGES, ASKED)
    const last = client.events.at(-1)!
    expect([last.event, JSON.parse(last.data)]).toEqual([
      'error',
      { type: 'error', error: ERROR, usage: { input_tokens: 25, output_tokens: 11 } },
    ])
    expect(await proxy.spent()).toEqual(both(25 + 100 + 11))
  })
})

describe('where it cuts', () => {
  /** Tokens that reached the client, one a word. */
  const seen = (text: string) => WORDS.filter((word) => text.includes(word)).length

  test.for([
    // Looks at 100, 200, …: fifty tokens are never looked at.
    ['not before the default buffer_tokens of 100', {}, 10, 50, undefined],
    ['when buffer_tokens have come since the last look', { buffer_tokens: 20 }, 10, 19, 20],
    ['a look within the limit is a look: the next is as far away again', { buffer_tokens: 8 }, 10, 15, 16],
    ['exactly the limit is not beyond it', { buffer_tokens: 25 }, 50, 50, undefined],
    ['one token beyond it is', { buffer_tokens: 1 }, 49, 49, 50],
  ] as const)('%s', async ([, streaming, max, passed, charged]) => {
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), { config: { max_completion_tokens: max }, streaming })
    const client = await proxy.stream(CHAT, ASKED)
    expect([seen(client.text), client.text.includes('"finish_reason":"length"')]).toEqual([passed, charged !== undefined])
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + (charged ?? 50)))
  })

  test('the backend call is aborted at once, though the backend would go on', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, tight())
    const client = proxy.open(CHAT, ASKED)
    const call = await backend.next()
    call.begin()
    await call.write(chatChunk({ content: 'x'.repeat(44) }))
    await client.untilClosed()
    await until(() => call.isAborted)
    expect(client.outcome).toBe('whole')
    expect(await proxy.spent()).toEqual(both(CHARGED))
  })
})

describe('switched off', () => {
  test('enforce_mid_stream: false counts, adds usage and cuts nothing', async () => {
    const proxy = await llmProxy(await streamingLlm(chatStream(WORDS)), tight({ enforce_mid_stream: false }))
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.data.length).toBe(WORDS.length + 3)
    expect(client.data.at(-2)).toMatchObject({ usage: { prompt_tokens: 3, completion_tokens: 50, total_tokens: 53 } })
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 50))
    expect(await proxy.edge.metric('edge_llm_truncations_total{policy="llm",rule="budget",cause="max_completion_tokens"}')).toBe(0)
  })
})
