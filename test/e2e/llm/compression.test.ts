import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { both, CHAT, fakeLlm, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { chatStream } from '../../support/llm/llm-streams.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { compressingLlm } from '../../support/llm/scripted-llm.ts'

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

describe('what is asked for', () => {
  test('an answer that a budget must read is asked for as it is, whatever the client takes', async () => {
    const fake = await fakeLlm({ tokens: 3 })
    const proxy = await llmProxy(fake)
    await proxy.stream(CHAT, ASKED, [['Accept-Encoding', 'gzip, br']])
    await proxy.stream(CHAT, ASKED)
    const asked = fake.requests.map(({ headers }) => headers.filter((_, i) => headers[i - 1]?.toLowerCase() === 'accept-encoding'))
    expect(asked).toEqual([['identity'], ['identity']])
    expect(await proxy.spent()).toEqual(both(2 * (HELLO_TOKENS + 3)))
  })

  test('so is one that a budget of money must read, but not one with a given cost', async () => {
    const fake = await fakeLlm({ tokens: 3 })
    const priced = await moneyProxy(fake)
    await priced.post(CHAT, ASKED, [['Accept-Encoding', 'gzip']])
    const given = await moneyProxy(fake, { config: { prices: undefined, cost: { header: 'x-cost', default: 1 } } })
    await given.post(CHAT, ASKED, [['Accept-Encoding', 'gzip']])
    const asked = fake.requests.map(({ headers }) => headers.filter((_, i) => headers[i - 1]?.toLowerCase() === 'accept-encoding'))
    expect(asked).toEqual([['identity'], ['gzip']])
  })
})

describe('a stream that is compressed all the same', () => {
  test.for(CODINGS)('%s: it is decoded, counted and goes on decoded', async ([coding, compress]) => {
    const proxy = await llmProxy(await compressingLlm(coding, compress(chatStream(WORDS))), { streaming: { include_partial_usage: false } })
    const client = await proxy.stream(CHAT, ASKED)
    expect([client.outcome, client.headers['content-encoding'], client.text]).toEqual(['whole', undefined, chatStream(WORDS)])
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 50))
  })

  test('each event goes on before the next one is there', async () => {
    const fake = await fakeLlm({ isGzip: true, tokens: 20, fail: 'stall', failAfterTokens: 5 })
    const proxy = await llmProxy(fake)
    const client = proxy.open(CHAT, ASKED)
    await client.untilText('"completion_tokens":5')
    expect(await proxy.held()).toEqual(both(RESERVED))
    client.abort()
    expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 5))
    expect(await proxy.settlements()).toEqual({ client_gone: 1 })
  })

  test('bytes that are not what Content-Encoding says: the answer is broken off, and all of it goes back', async () => {
    const proxy = await llmProxy(await compressingLlm('gzip', Buffer.from(chatStream(WORDS))))
    const client = await proxy.stream(CHAT, ASKED)
    expect(client.text).not.toContain('w000')
    expect([client.outcome, await proxy.spent()]).toEqual(['broken', both(0)])
    expect(await proxy.settlements()).toEqual({ backend_failed: 1 })
  })
})
