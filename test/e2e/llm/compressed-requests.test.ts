import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { both, CHAT, HELLO, HELLO_TOKENS, llmProxy } from '../../support/llm/llm-proxy.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { ask, type Fields } from '../../support/service/http.ts'

const CHEAP = Buffer.from(JSON.stringify({ messages: HELLO, max_tokens: 100 }))
const half = CHEAP.length >> 1
const [FIRST, SECOND] = [CHEAP.subarray(0, half), CHEAP.subarray(half)]

/** What a request reserves, or the status and the reason of its refusal. */
async function reserved(bytes: Buffer, fields: Fields, env: Readonly<Record<string, string>> = {}): Promise<unknown> {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, { env, config: { max_completion_tokens: 2000 } })
  const answer = ask(proxy.port, 'POST', CHAT, fields, bytes)
  const call = await Promise.race([backend.next(), answer])
  if ('status' in call) return [call.status, call.headers['x-edge-reason']]
  const held = await proxy.held()
  call.answer(200, {})
  await answer
  return held
}

const coded = (...codings: readonly string[]): Fields => codings.map((coding) => ['Content-Encoding', coding] as const)

describe('a compressed body that a budget covers', () => {
  test.each([
    ['gzip', gzipSync(CHEAP)],
    ['gzip, in two members', Buffer.concat([gzipSync(FIRST), gzipSync(SECOND)])],
    ['deflate', deflateSync(CHEAP)],
    ['br', brotliCompressSync(CHEAP)],
  ])('is read: %s', async (name, bytes) => {
    expect(await reserved(bytes, coded(name.split(',')[0]!))).toEqual(both(HELLO_TOKENS + 100))
  })

  test.each([
    ['gzip', gzipSync(CHEAP).subarray(0, -9)],
    ['gzip', Buffer.concat([gzipSync(FIRST), gzipSync(SECOND).subarray(0, -9)])],
    ['gzip', CHEAP],
    ['deflate', deflateSync(CHEAP).subarray(0, -5)],
    ['deflate', deflateRawSync(CHEAP)],
    ['br', brotliCompressSync(CHEAP).subarray(0, -3)],
  ])('is refused where it is not what its coding says, or breaks off: %s %#', async (coding, bytes) => {
    expect(await reserved(bytes, coded(coding))).toEqual([400, 'bad_request'])
  })

  test.each([
    ['gzip', gzipSync(Buffer.alloc(2 * 1024 * 1024, 0x20))],
    ['gzip', gzipSync(Buffer.from(`{"messages":"${'x'.repeat(2 * 1024 * 1024)}"}`))],
    ['deflate', deflateSync(Buffer.alloc(2 * 1024 * 1024, 0x5b))],
    ['br', brotliCompressSync(Buffer.alloc(2 * 1024 * 1024, 0x20))],
  ])('is refused where it decodes to more than it may: %s %#', async (coding, bytes) => {
    expect(await reserved(bytes, coded(coding), { EDGE_MAX_BODY_BYTES: '1m' })).toEqual([413, 'body_too_large'])
  })

  test.each([
    [['gzip, gzip'], gzipSync(gzipSync(CHEAP))],
    [['gzip', 'gzip'], gzipSync(gzipSync(CHEAP))],
    [['identity, gzip'], gzipSync(CHEAP)],
    [['identity', 'gzip'], gzipSync(CHEAP)],
    [['gzip', 'identity'], gzipSync(CHEAP)],
    [['br', 'identity'], brotliCompressSync(CHEAP)],
    [['identity', 'br'], CHEAP],
    [['zstd'], CHEAP],
  ])('states no bound under several codings, or one that is not known: %j', async (codings, bytes) => {
    expect(await reserved(bytes, coded(...codings))).toEqual(both(Math.ceil(bytes.length / 4) + 2000))
  })
})
