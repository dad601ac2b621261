import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import { CHAT, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { chatChunk, chatStream } from '../../support/llm/llm-streams.ts'
import { type ScriptedLlm, scriptedLlm } from '../../support/llm/scripted-llm.ts'
import { StreamClient } from '../../support/llm/stream-client.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { thisSuite } from '../../support/service/suite-owner.ts'
import { until } from '../../support/until.ts'

/** Streams that are not, or not only, what their Content-Encoding says. Where they are merely counted, every byte passes. */

const EVENTS = Array.from({ length: 10 }, (_, i) => `event ${i}`)
const TEXT = chatStream(EVENTS)
const GZIP = gzipSync(TEXT)
const GARBAGE = Buffer.from('this is neither gzip nor anything else, and there is more of it than a header has')
/** More than what a decoder takes before it asks for a pause. */
const LARGE = Buffer.from(chatStream(Array.from({ length: 2000 }, (_, i) => `event ${i} ${'x'.repeat(100)}`)))

const DAMAGED: readonly (readonly [what: string, coding: string, bytes: Buffer])[] = [
  ['plain text labelled gzip', 'gzip', Buffer.from(TEXT)],
  ['plain text labelled deflate', 'deflate', Buffer.from(TEXT)],
  ['plain text labelled br', 'br', Buffer.from(TEXT)],
  ['raw deflate', 'deflate', deflateRawSync(TEXT)],
  ['gzip labelled br', 'br', GZIP],
  ['much plain text labelled gzip', 'gzip', LARGE],
  ['a gzip that ends too early', 'gzip', GZIP.subarray(0, -12)],
  ['a br that ends too early', 'br', brotliCompressSync(TEXT).subarray(0, -12)],
  ['a gzip with a wrong checksum', 'gzip', Buffer.concat([GZIP.subarray(0, -8), Buffer.alloc(8, 1)])],
  ['good events, then rubbish', 'gzip', Buffer.concat([gzipSync(TEXT.slice(0, 500)).subarray(0, -8), GARBAGE, LARGE])],
  ['half a second gzip member', 'gzip', Buffer.concat([gzipSync(TEXT.slice(0, 500)), gzipSync(TEXT.slice(500)).subarray(0, 20)])],
]

const WHOLE: readonly (readonly [what: string, coding: string, bytes: Buffer])[] = [
  ['a gzip with rubbish behind it', 'gzip', Buffer.concat([GZIP, GARBAGE, LARGE])],
  ['a deflate with rubbish behind it', 'deflate', Buffer.concat([deflateSync(TEXT), GARBAGE, LARGE])],
  [
    'several gzip members',
    'gzip',
    Buffer.concat([gzipSync(TEXT.slice(0, 300)), gzipSync(TEXT.slice(300, 700)), gzipSync(TEXT.slice(700))]),
  ],
]

const SETTLED = 'edge_llm_settlements_total{end="done"}'
const USED = 'edge_llm_tokens_used_total{policy="p",rule="r"}'

describe.each([
  ['in shadow mode', 'shadow', true],
  ['that enforces, on a stream that the client did not ask for', 'enforce', false],
] as const)('under a rule %s', (_what, mode, stream) => {
  const suite = thisSuite()
  const body = JSON.stringify({ stream, messages: HELLO, max_tokens: 500 })
  let backend: ScriptedLlm
  let edge: Edge
  beforeAll(async () => {
    backend = await scriptedLlm(undefined, suite)
    const rules = [llmRule('r', [], { tokens_per_minute: 100_000 })]
    const env = { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend) }
    edge = await running({ clock: new ManualClock(), bundle: bundle(1, policy('p', { mode, rules })), env }, suite)
  })

  /** Who has the whole response may be told before its decoder has come to an end. */
  const untilSettled = () => until(async () => (await edge.metric('edge_llm_open_streams')) === 0)

  test.each([...DAMAGED, ...WHOLE])('%s passes byte for byte, to its end, and is settled once', async (_damage, coding, bytes) => {
    const settled = await edge.metric(SETTLED)
    const client = new StreamClient(edge.port, CHAT, body)
    const call = await backend.next()
    call.begin({ 'Content-Encoding': coding })
    await call.writeInPieces(bytes, Math.ceil(bytes.length / 20))
    call.end()
    await client.untilClosed()
    expect([client.outcome, client.bytes.equals(bytes)]).toEqual(['whole', true])
    await untilSettled()
    expect((await edge.metric(SETTLED)) - settled).toBe(1)
    expect(edge.log.filter(({ event }) => event === 'internal_error' || event === 'backend_failed')).toEqual([])
  })

  test.each(['gzip', 'x-gzip', 'deflate', 'br'])(
    'plain text labelled %s goes on event by event, long after it was found out',
    async (coding) => {
      const client = new StreamClient(edge.port, CHAT, body)
      const call = await backend.next()
      call.begin({ 'Content-Encoding': coding })
      for (const event of EVENTS) {
        await call.write(chatChunk({ content: event }))
        await client.untilText(event)
      }
      call.end()
      expect((await client.untilClosed()).outcome).toBe('whole')
      await untilSettled()
    },
  )

  test('what cannot be read costs what was reserved', async () => {
    const used = await edge.metric(USED)
    const client = new StreamClient(edge.port, CHAT, body)
    const call = await backend.next()
    call.begin({ 'Content-Encoding': 'gzip' })
    call.end(TEXT)
    await client.untilClosed()
    await untilSettled()
    expect((await edge.metric(USED)) - used).toBe(HELLO_TOKENS + 500)
  })
})
