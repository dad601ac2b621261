import { gzipSync, constants as zlib } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { both, CHAT, EMBEDDINGS, HELLO, HELLO_TOKENS, llmProxy, MESSAGES, RESPONSES } from '../../support/llm/llm-proxy.ts'
import { chatChunk, sse } from '../../support/llm/llm-streams.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

const GEMINI = '/v1beta/models/gemini-2.5-flash-image:streamGenerateContent?alt=sse'
const USAGE = { prompt_tokens: 20, completion_tokens: 800, total_tokens: 820 }
const TRUTH = 820
const EVENTS = { 'Content-Type': 'text/event-stream' }
/** More than a reservation of the default size, and less than a budget. */
const PROSE = 'All work and no play makes Jack a dull boy. '.repeat(500)
const IMAGE = Buffer.from(Array.from({ length: 1_200_000 }, (_, i) => (i * 7919) % 251)).toString('base64')
const CHAT_BODY = { messages: HELLO, max_tokens: 10 }

interface Case {
  readonly path?: string
  readonly body?: object
  readonly response: string | Buffer
  readonly fields?: Readonly<Record<string, string>>
}

async function spentOn({ path = CHAT, body = CHAT_BODY, response, fields = {} }: Case, config: object = {}): Promise<number> {
  const backend = await scriptedLlm((call) => call.answer(200, response, fields))
  const proxy = await llmProxy(backend, { minuteTokens: 400_000, dayTokens: 200_000, config: { ...config } })
  await proxy.post(path, body)
  const { minute, day } = await proxy.spent()
  expect(minute).toBe(day)
  return day
}

/** What it costs by its size, which is more than the client chose to reserve. */
function bySize(text: string): number {
  return HELLO_TOKENS + Math.ceil(text.length / 4)
}

describe('a whole response whose usage the provider tells costs that', () => {
  const probabilities = `[${'-0.25,'.repeat(2_100_000)}0]`
  test.each<[string, Case]>([
    ['behind two million values', { response: `{"choices":[{"logprobs":${probabilities}}],"usage":${JSON.stringify(USAGE)}}` }],
    [
      'beyond the largest body of a request',
      { response: `{"choices":[{"message":{"content":"${'x'.repeat(17 * 1024 * 1024)}"}}],"usage":${JSON.stringify(USAGE)}}` },
    ],
    [
      'beside numbers that JSON does not have',
      { response: `{"choices":[{"logprob":-Infinity,"p":[NaN,Infinity]}],"usage":${JSON.stringify(USAGE)}}` },
    ],
    ['beside a number of 300 digits', { response: `{"n":${'9'.repeat(300)},"choices":[],"usage":${JSON.stringify(USAGE)}}` }],
    ['behind a byte order mark', { response: `\ufeff${JSON.stringify({ choices: [], usage: USAGE })}` }],
    ['in UTF-16', { response: Buffer.from(JSON.stringify({ choices: [], usage: USAGE }), 'utf16le') }],
    [
      'compressed, behind two million values',
      {
        response: gzipSync(`{"choices":[{"logprobs":${probabilities}}],"usage":${JSON.stringify(USAGE)}}`),
        fields: { 'Content-Encoding': 'gzip' },
      },
    ],
    ...['application/json', 'text/plain'].map((type): [string, Case] => [
      `in a stream that is labelled ${type}`,
      { response: chatChunk({ content: PROSE }) + sse({ choices: [], usage: USAGE }) + sse('[DONE]'), fields: { 'Content-Type': type } },
    ]),
  ])('%s', async (_, each) => {
    expect(await spentOn(each)).toBe(TRUTH)
  })
})

describe('a response of which nothing is known costs its size, if that is more than the client chose to reserve', () => {
  const message = JSON.stringify({ choices: [{ message: { content: PROSE } }] })
  test.each([
    ['that is followed by a second value', `${message}{}`],
    ['that is cut off', message.slice(0, -3)],
    ['in lines of JSON', `${JSON.stringify({ response: PROSE })}\n${JSON.stringify({ response: PROSE })}\n`],
    ['of an API that is not known', JSON.stringify({ answer: PROSE })],
    ['that is no JSON', PROSE],
  ])('%s', async (_, response) => {
    expect(await spentOn({ response })).toBe(bySize(response))
    // What was reserved is kept if that is more.
    expect(await spentOn({ response, body: { ...CHAT_BODY, max_tokens: 60_000 } })).toBe(HELLO_TOKENS + 60_000)
  })

  test('in a stream of events', async () => {
    const response = sse({ answer: PROSE }) + sse({ answer: PROSE })
    expect(await spentOn({ response, fields: EVENTS, body: { ...CHAT_BODY, stream: true } })).toBe(bySize(response))
  })

  test('in a coding that cannot be decoded', async () => {
    const coded = { 'Content-Encoding': 'zstd' }
    expect(await spentOn({ response: PROSE, fields: coded })).toBe(bySize(PROSE))
    expect(await spentOn({ response: PROSE, fields: { ...coded, ...EVENTS }, body: { ...CHAT_BODY, stream: true } })).toBe(bySize(PROSE))
  })

  test('outside of long base64', async () => {
    const response = JSON.stringify({ created: 1, pictures: [{ bytes: IMAGE }, { bytes: IMAGE.replaceAll('/', '\\/') }] })
    expect(await spentOn({ response, body: { ...CHAT_BODY, max_tokens: 1000 } })).toBe(HELLO_TOKENS + 1000)
  })

  test.each<[string, Case]>([
    ['sound', { response: Buffer.from(IMAGE, 'base64'), fields: { 'Content-Type': 'audio/mpeg' } }],
    ['bytes of another type', { response: Buffer.from(IMAGE, 'base64'), fields: { 'Content-Type': 'application/x-voice' } }],
    ['the page of a gateway', { response: `<html>${PROSE}</html>`, fields: { 'Content-Type': 'text/html; charset=utf-8' } }],
    ['vectors', { response: JSON.stringify({ vectors: [Array(3000).fill(0.123456789)] }) }],
  ])('unless it is no text of a model: %s', async (_, each) => {
    expect(await spentOn(each)).toBe(HELLO_TOKENS + 10)
  })

  const vector = Array(3000).fill(0.123456789)
  test.each([
    ['/v1/embeddings', { input: 'hello there!' }, { data: [{ embedding: vector }] }, HELLO_TOKENS],
    ['/api/embed', { input: 'hello there!' }, { model: 'e', embeddings: [vector], prompt_eval_count: 3 }, HELLO_TOKENS],
    ['/embed', { inputs: 'hello' }, [vector], 5],
    ['/v2/embed', { texts: ['hello'] }, { embeddings: { int8: [vector.map((_, i) => (i % 256) - 128)] } }, 5],
    ['/model/amazon.titan-embed-text-v2:0/invoke', { inputText: 'hello' }, { embedding: vector, inputTextTokenCount: 1 }, 6],
  ])('or nothing was generated: %s', async (path, body, response, tokens) => {
    expect(await spentOn({ path, body, response: JSON.stringify(response) })).toBe(tokens)
  })

  test('of money, too', async () => {
    const backend = await scriptedLlm((call) => call.answer(200, { answer: PROSE }))
    const proxy = await moneyProxy(backend, { budget: 1000 })
    await proxy.post(CHAT, { model: 'big', ...CHAT_BODY })
    expect(await proxy.leftWhenQuiet()).toBeCloseTo(1000 - HELLO_TOKENS * 0.01 - Math.ceil((PROSE.length + 13) / 4) * 0.02, 6)
  })
})

test('a whole response that is an error and nothing else costs nothing, as in a stream', async () => {
  const error = { error: { message: 'overloaded', type: 'server_error' } }
  expect(await spentOn({ response: JSON.stringify(error), body: { ...CHAT_BODY, max_tokens: 64_000 } })).toBe(0)
  expect(await spentOn({ response: JSON.stringify({ ...error, usage: USAGE }) })).toBe(TRUTH)
  expect(await spentOn({ response: JSON.stringify({ error: null, choices: [{ message: { content: 'x'.repeat(40) } }] }) })).toBe(
    HELLO_TOKENS + 10,
  )
  const large = JSON.stringify({ ...error, answer: PROSE.repeat(4) })
  expect(await spentOn({ response: large })).toBe(bySize(large))
})

test('an empty error is none', async () => {
  for (const error of ['', {}, [], 0, false]) {
    const response = JSON.stringify({ error, answer: PROSE })
    expect(await spentOn({ response })).toBe(bySize(response))
    const stream = { response: sse({ error, answer: PROSE }), fields: EVENTS, body: { ...CHAT_BODY, stream: true } }
    expect(await spentOn(stream)).toBe(bySize(stream.response))
  }
  expect(await spentOn({ response: JSON.stringify({ error: 'overloaded' }) })).toBe(0)
  expect(await spentOn({ response: sse({ error: 'overloaded' }), fields: EVENTS, body: { ...CHAT_BODY, stream: true } })).toBe(0)
})

describe('a stream costs the largest counts that the provider tells', () => {
  const text = chatChunk({ content: 'Hello' })
  const choice = (usage: object, index = 0) => sse({ choices: [{ index, delta: {}, finish_reason: 'stop', usage }] })
  test.each([
    [
      'not a later one of zeros',
      text + sse({ choices: [], usage: USAGE }) + sse({ choices: [], usage: { prompt_tokens: 0, completion_tokens: 0 } }),
    ],
    ["in Groq's place", text + sse({ choices: [], x_groq: { id: 'req_1', usage: USAGE } })],
    ["in Kimi's place", text + choice(USAGE)],
    [
      'of each choice',
      text + choice({ prompt_tokens: 20, completion_tokens: 300 }) + choice({ prompt_tokens: 20, completion_tokens: 500 }, 1),
    ],
    ['behind the end', text + sse('[DONE]') + sse({ choices: [], usage: USAGE })],
    ['behind a first event of another API', sse({ usageMetadata: {} }) + text + sse({ choices: [], usage: USAGE })],
    ['behind a first event that has a type', sse({ type: 'response.created' }) + text + sse({ choices: [], usage: USAGE })],
    ['behind a byte order mark', `\ufeff${text}${sse({ choices: [], usage: USAGE })}`],
    ['in an event that begins with one', text + sse(`\ufeff${JSON.stringify({ choices: [], usage: USAGE })}`)],
    [
      'beside numbers that JSON does not have',
      text + sse(`{"choices":[{"delta":{"content":"x"},"logprob":-Infinity}],"usage":${JSON.stringify(USAGE)}}`),
    ],
  ])('%s', async (_, stream) => {
    for (const pieceBytes of [0, 7]) {
      const backend = await scriptedLlm(async (call) => {
        call.begin()
        await call.writeInPieces(stream, pieceBytes)
        call.end()
      })
      const proxy = await llmProxy(backend, { minuteTokens: 400_000, dayTokens: 200_000 })
      await proxy.stream(CHAT, { ...CHAT_BODY, stream_options: { include_usage: true } })
      expect(await proxy.spent()).toEqual(both(TRUTH))
    }
  })

  test('and the text of all APIs in it, if there are none', async () => {
    const texts = [
      sse({ type: 'response.created' }),
      chatChunk({ content: PROSE }),
      sse({ type: 'response.output_text.delta', delta: 'x'.repeat(400) }),
    ]
    expect(await spentOn({ response: texts.join(''), fields: EVENTS, body: { ...CHAT_BODY, stream: true } })).toBe(
      HELLO_TOKENS + Math.ceil(PROSE.length / 4) + 100,
    )
  })
})

describe('an event above a mebibyte costs what it says', () => {
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 1290, totalTokenCount: 1300 }
  const picture = { candidates: [{ content: { parts: [{ inlineData: { mimeType: 'image/png', data: IMAGE } }] }, index: 0 }] }
  const usage = { input_tokens: 100, output_tokens: 2000, total_tokens: 2100 }
  const tools = Array.from({ length: 9000 }, (_, i) => ({ type: 'function', name: `tool_${i}`, description: PROSE.slice(0, 100) }))
  const started = { type: 'response.created', response: { id: 'resp_1', model: 'big', tools, usage: null } }
  const response = { id: 'resp_1', model: 'big', tools, output: [{ type: 'image_generation_call', result: IMAGE }], usage }
  const CASES: readonly (readonly [string, string, object, string, readonly [input: number, output: number]])[] = [
    ['a picture, with its usage', GEMINI, { contents: [] }, sse({ ...picture, usageMetadata }), [10, 1290]],
    [
      'a picture before its usage',
      GEMINI,
      { contents: [] },
      sse(picture) + sse({ candidates: [{ finishReason: 'STOP' }], usageMetadata }),
      [10, 1290],
    ],
    ['a whole response', RESPONSES, { input: 'hi' }, sse(started) + sse({ type: 'response.completed', response }), [100, 2000]],
    [
      'an output item',
      RESPONSES,
      { input: 'hi' },
      sse({ type: 'response.output_item.done', item: { type: 'image_generation_call', result: IMAGE } }) +
        sse({ type: 'response.completed', response }),
      [100, 2000],
    ],
    [
      'a block of a message',
      MESSAGES,
      { messages: HELLO },
      sse({ type: 'message_start', message: { model: 'big', usage: { input_tokens: 100, output_tokens: 1 } } }) +
        sse({ type: 'content_block_start', index: 0, content_block: { type: 'x', source: { data: IMAGE } } }) +
        sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2000 } }),
      [100, 2000],
    ],
    [
      'log probabilities',
      CHAT,
      CHAT_BODY,
      sse({ choices: [{ delta: { content: 'x' }, logprobs: Array(300_000).fill(-0.25) }], usage: USAGE }),
      [20, 800],
    ],
  ]
  test.each(CASES)('%s, and the stream goes on', async (_, path, body, stream, [input, output]) => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.writeInPieces(stream, 60_000)
      call.end()
    })
    const config = { reserve: { first: 100, step: 100 } }
    const proxy = await llmProxy(backend, { minuteTokens: 200_000, dayTokens: 100_000, config })
    const client = await proxy.stream(path, body)
    expect(client.text.startsWith(stream)).toBe(true)
    expect(await proxy.spent()).toEqual(both(input + output))
    const money = await moneyProxy(backend, { budget: 100_000, config: { reserve: {} } })
    await money.stream(path, body)
    expect(await money.leftWhenQuiet()).toBeCloseTo(100_000 - input * 0.04 - output * 0.08, 6)
  })

  test('is never cut within, and the stream is cut behind it if it used the budget up', async () => {
    const event = chatChunk({ content: PROSE.repeat(60) })
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.writeInPieces(event + chatChunk({ content: 'more' }), 60_000)
      call.end()
    })
    const proxy = await llmProxy(backend, { minuteTokens: 500_000, dayTokens: 20_000, config: { reserve: {} } })
    const client = await proxy.stream(CHAT, { messages: HELLO })
    expect(client.text.startsWith(event)).toBe(true)
    expect(client.text).not.toContain('more')
    expect(client.text).toContain('"finish_reason":"length"')
  })
})

describe('a stream that has only kept the connection open costs what an empty one does', () => {
  test.each([
    ['the time to reconnect', 'retry: 3000\n\n'],
    ['an event without data', 'event: ping\nid: 1\n\n'],
    ['empty data', 'data:\n\n'],
    ['a comment', '\ufeff: hello\n\n'],
    ['a ping', 'event: ping\ndata: {"type": "ping"}\n\n'],
  ])('%s', async (_, text) => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write(text)
    })
    const proxy = await llmProxy(backend)
    const left = proxy.open(CHAT, { ...CHAT_BODY, stream: true })
    await left.untilText(text.slice(-4))
    left.abort()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
    const broken = proxy.open(CHAT, { ...CHAT_BODY, stream: true })
    await broken.untilText(text.slice(-4))
    backend.calls.at(-1)!.reset()
    await broken.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
  })

  test('but not if it has anything else', async () => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write('event: ping\nevents are no field\n\n')
    })
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, { ...CHAT_BODY, stream: true })
    await client.untilText('field')
    backend.calls.at(-1)!.reset()
    await client.untilClosed()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 10))
  })
})

describe('a whole response that breaks off costs what has passed, whatever was reserved', () => {
  const flushed = (text: string) => gzipSync(text, { finishFlush: zlib.Z_SYNC_FLUSH })
  const message = JSON.stringify({ choices: [{ message: { content: PROSE } }] }).slice(0, -3)
  const GZIP = { 'Content-Encoding': 'gzip' }
  const text = HELLO_TOKENS + PROSE.length / 4
  /** Names and ids, which known APIs have before their text. */
  const FREE = 1024 / 4
  test.each<[string, string | Buffer, object, number]>([
    ['nothing but the head of its compression', flushed(PROSE).subarray(0, 12), GZIP, 0],
    ['white space', '\n\n  \n', {}, 0],
    ['an API that is not known', `{"answer":"${PROSE}`, {}, bySize(`{"answer":"${PROSE}`) - FREE],
    ['the same, compressed', flushed(`{"answer":"${PROSE}`), GZIP, bySize(`{"answer":"${PROSE}`) - FREE],
    ['text, compressed', flushed(message), GZIP, text],
    ['usage, compressed', flushed(`{"choices":[],"usage":${JSON.stringify(USAGE)},`), GZIP, TRUTH],
  ])('%s', async (_, bytes, fields, tokens) => {
    const backend = await scriptedLlm(async (call) => {
      call.begin({ 'Content-Type': 'application/json', ...fields })
      await call.write(bytes)
    })
    const proxy = await llmProxy(backend, { minuteTokens: 400_000, dayTokens: 200_000 })
    const broken = proxy.open(CHAT, { messages: HELLO, max_tokens: 64_000 })
    await until(() => broken.bytes.length === bytes.length)
    backend.calls[0]!.reset()
    await broken.untilClosed()
    await expect.poll(() => proxy.spent()).toEqual(both(tokens))
  })

  test('and the text that a client has received when it leaves, compressed or not', async () => {
    for (const [bytes, fields] of [[Buffer.from(message), {}] as const, [flushed(message), GZIP] as const]) {
      const backend = await scriptedLlm(async (call) => {
        call.begin({ 'Content-Type': 'application/json', ...fields })
        await call.write(bytes)
      })
      const proxy = await llmProxy(backend, { minuteTokens: 400_000, dayTokens: 200_000 })
      const left = proxy.open(CHAT, { messages: HELLO, max_tokens: 64_000 })
      await until(() => left.bytes.length === bytes.length)
      left.abort()
      await expect.poll(() => proxy.spent()).toEqual(both(text))
    }
  })
})

test('a stream that has said its end waits for no count that does not come, though its connection stays open', async () => {
  const backend = await scriptedLlm(async (call) => {
    call.begin()
    await call.write(chatChunk({ content: 'x'.repeat(40) }, 'stop') + sse('[DONE]'))
  })
  const proxy = await llmProxy(backend)
  const client = proxy.open(CHAT, { ...CHAT_BODY, max_tokens: 500, stream: true, stream_options: { include_usage: true } })
  await client.untilText('[DONE]')
  await expect.poll(() => proxy.held()).toEqual(both(HELLO_TOKENS + 10))
  expect(client.outcome).toBe('open')
})

test('an embedding that does not arrive whole costs its prompt', async () => {
  const backend = await scriptedLlm(async (call) => {
    call.begin({ 'Content-Type': 'application/json' })
    await call.write(`{"data":[{"embedding":[${'0.123456789,'.repeat(3000)}`)
  })
  const proxy = await llmProxy(backend)
  const left = proxy.open(EMBEDDINGS, { input: 'hello there!' })
  await left.untilText('embedding')
  left.abort()
  expect(await proxy.spent()).toEqual(both(HELLO_TOKENS))
})
