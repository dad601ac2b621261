import { brotliCompressSync, deflateSync, gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { both, CHAT, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatStream, parseSse } from '../../support/llm/llm-streams.ts'
import { compressingLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { until } from '../../support/until.ts'

const ASKED = { stream: true, messages: HELLO, max_tokens: 500 }
const RESERVED = HELLO_TOKENS + 500
const WORDS = Array.from({ length: 50 }, (_, i) => `w${String(i).padStart(3, '0')}`)
const CODINGS = [
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['GZIP', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
] as const

describe('a stream that is compressed all the same', () => {
  test.for(CODINGS)('%s: it is cut where the rule says', async ([coding, compress]) => {
    const proxy = await llmProxy(await compressingLlm(coding, compress(chatStream(WORDS))), {
      config: { max_completion_tokens: 10 },
      streaming: { buffer_tokens: 1 },
    })
    const client = await proxy.stream(CHAT, ASKED)
    expect([client.outcome, client.data.at(-1)]).toEqual(['whole', '[DONE]'])
    expect(client.data.at(-2)).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 11 } })
    expect(client.text).not.toContain('w010')
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 11))
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
  })

  test.for([true, false])("what comes behind the end of its coding is nobody's, and it is settled (asked for: %s)", async (stream) => {
    const backend = await scriptedLlm(async (call) => {
      call.begin({ 'Content-Encoding': 'deflate', 'Content-Type': 'text/event-stream' })
      await call.write(Buffer.concat([deflateSync(chatStream(WORDS)), Buffer.from('x')]))
      await until(async () => (await proxy.edge.metric('edge_proxy_open_requests')) === 1)
      call.end()
    })
    const proxy = await llmProxy(backend)
    const client = await proxy.open(CHAT, { ...ASKED, stream }).untilClosed()
    expect([client.outcome, await proxy.spent()]).toEqual(['whole', both(HELLO_TOKENS + 50)])
    expect(await proxy.settlements()).toEqual({ done: 1 })
  })

  test('one that nobody asked for passes compressed and is counted', async () => {
    const bytes = gzipSync(chatStream(WORDS))
    const proxy = await llmProxy(await compressingLlm('gzip', bytes), { config: { max_completion_tokens: 10 } })
    const client = await proxy.open(CHAT, { messages: HELLO }).untilClosed()
    expect([client.headers['content-encoding'], client.bytes.equals(bytes)]).toEqual(['gzip', true])
    expect(parseSse(gunzipSync(client.bytes).toString()).length).toBe(53)
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 50))
  })

  test('a coding that we cannot read passes as it is, and the reservation stands', async () => {
    for (const coding of ['zstd', 'gzip, br']) {
      const bytes = Buffer.from('these are not the bytes that you are looking for')
      const proxy = await llmProxy(await compressingLlm(coding, bytes))
      const client = await proxy.stream(CHAT, ASKED)
      expect([client.outcome, client.headers['content-encoding'], client.bytes.equals(bytes)]).toEqual(['whole', coding, true])
      expect(await proxy.spent()).toEqual(both(RESERVED))
    }
  })

  test('one that ends in the middle of its compression is a broken answer', async () => {
    const bytes = gzipSync(chatStream(WORDS))
    const proxy = await llmProxy(await compressingLlm('gzip', bytes.subarray(0, -12)))
    const client = await proxy.stream(CHAT, ASKED)
    // What has been decoded by then has passed.
    const { day } = await proxy.spent()
    expect([client.outcome, day > 0, day <= HELLO_TOKENS + 2 * WORDS.join('').length]).toEqual(['broken', true, true])
  })
})

describe('a whole answer that is compressed all the same', () => {
  const BODY = { usage: { prompt_tokens: 11, completion_tokens: 31, total_tokens: 42 } }

  test.for(CODINGS)('%s: it passes as it is and is counted', async ([coding, compress]) => {
    const bytes = compress(JSON.stringify(BODY))
    const proxy = await llmProxy(await compressingLlm(coding, bytes, 'application/json', 5))
    const client = await proxy.open(CHAT, { messages: HELLO }).untilClosed()
    expect([client.headers['content-encoding'], client.bytes.equals(bytes)]).toEqual([coding, true])
    expect(await proxy.spent()).toEqual(both(42))
  })

  test('one that cannot be read passes, and the reservation stands', async () => {
    for (const [coding, bytes] of [
      ['zstd', Buffer.from('what is this')],
      ['gzip', Buffer.from(JSON.stringify(BODY))],
    ] as const) {
      const proxy = await llmProxy(await compressingLlm(coding, bytes, 'application/json'))
      const client = await proxy.open(CHAT, { messages: HELLO, max_tokens: 500 }).untilClosed()
      expect([client.outcome, client.bytes.equals(bytes)]).toEqual(['whole', true])
      expect(await proxy.spent()).toEqual(both(RESERVED))
    }
  })

  test('one that would fill the memory passes and is read all the same', async () => {
    const bytes = gzipSync(Buffer.from(JSON.stringify(BODY).padStart(4 * 1024 * 1024)))
    const proxy = await llmProxy(await compressingLlm('gzip', bytes, 'application/json', 0), { env: { EDGE_MAX_BODY_BYTES: '1m' } })
    const client = await proxy.open(CHAT, { messages: HELLO, max_tokens: 500 }).untilClosed()
    expect(client.bytes.equals(bytes)).toBe(true)
    expect(await proxy.spent()).toEqual(both(42))
  })
})
