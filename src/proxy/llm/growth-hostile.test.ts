import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { type GrowingOptions, GrowingStreams, type PlayedStream } from '../../../test/support/llm/growing-streams.ts'
import { chatChunk, sse } from '../../../test/support/llm/llm-streams.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { MapStore } from '../../../test/support/store/map-store.ts'
import { until } from '../../../test/support/until.ts'

/** What backends, clients and operators do to streams whose reservations grow: `first` is 200 and `step` 100, of tokens and of money alike. */

function newStreams(budget: number, options: GrowingOptions = {}): GrowingStreams {
  return new GrowingStreams(new MapStore(), new ManualClock(), budget, options)
}

async function opened(budget: number, options?: GrowingOptions): Promise<{ all: GrowingStreams; stream: PlayedStream }> {
  const all = newStreams(budget, options)
  return { all, stream: (await all.open(0))! }
}

const said = (tokens: number): string => chatChunk({ content: '#'.repeat(4 * tokens) })
const counted = (tokens: number, completion: unknown): string =>
  sse({ choices: [{ index: 0, delta: { content: '#'.repeat(4 * tokens) } }], usage: { prompt_tokens: 0, completion_tokens: completion } })
const ENDED = /"finish_reason":"length"\}\]\}\n\ndata: \[DONE\]\n\n$/

async function answerAll(all: GrowingStreams): Promise<void> {
  while (all.asks.length > 0) await all.asks.shift()!.answer()
}

describe('counts of a backend in the middle of its stream', () => {
  test.each([
    ['negative', -5],
    ['fractional', 1.5],
    ['a text', '100000'],
    ['infinite', '1e999'],
  ])('are ignored if they are %s', async (_, completion) => {
    const { all, stream } = await opened(250)
    stream.readBytes(counted(20, completion))
    for (let i = 0; i < 100 && !stream.isOver; i++) stream.read(20)
    await all.settled()
    expect(stream.tokens).toBeLessThanOrEqual(250)
    expect(stream.tokens).toBeGreaterThan(200)
  })

  test.each([false, true])('that are huge end the stream at its next text, and are charged (answers are late: %s)', async (isDelayed) => {
    const { all, stream } = await opened(1000, { isDelayed })
    stream.readBytes(sse({ choices: [], usage: { prompt_tokens: 0, completion_tokens: Number.MAX_SAFE_INTEGER } }))
    await answerAll(all)
    expect([stream.isOver, stream.isPaused]).toEqual([false, false])
    stream.read(1)
    expect(stream.isOver).toBe(true)
    expect(stream.delivered).toMatch(ENDED)
    await all.settled()
    expect(all.used.get('tokens')).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('that fall give the rest to the stream again', async () => {
    const { all, stream } = await opened(1000)
    stream.readBytes(counted(10, 800))
    stream.readBytes(counted(10, 20))
    expect(stream.isOver).toBe(false)
    for (let i = 0; i < 200 && !stream.isOver; i++) stream.read(20)
    await all.settled()
    expect(stream.tokens).toBeGreaterThan(900)
    expect(all.used.get('tokens')).toBeLessThanOrEqual(1020)
  })

  test.each([
    ['chat', { choices: [{ index: 0, delta: { content: '#'.repeat(40) } }], usage: { prompt_tokens: 0, completion_tokens: 0 } }],
    [
      'Gemini',
      { candidates: [{ content: { parts: [{ text: '#'.repeat(40) }] } }], usageMetadata: { promptTokenCount: 0, totalTokenCount: 0 } },
    ],
  ])('that stay at zero do not make text free: %s', async (_api, event) => {
    const { all, stream } = await opened(300)
    for (let i = 0; i < 100 && !stream.isOver; i++) stream.readBytes(sse(event))
    expect(stream.isOver).toBe(true)
    await all.settled()
    expect(all.used.get('tokens')).toBeGreaterThanOrEqual(stream.tokens)
    expect(stream.tokens).toBeGreaterThan(250)
    expect(all.used.get('tokens')).toBeLessThanOrEqual(310)
  })

  test('of the prompt that are larger than what is left cut it at its first text', async () => {
    const { all, stream } = await opened(250)
    stream.readBytes(sse({ choices: [], usage: { prompt_tokens: 1000, completion_tokens: 0 } }))
    expect(stream.isOver).toBe(false)
    stream.read(1)
    expect([stream.isOver, stream.tokens]).toEqual([true, 0])
    await all.settled()
    expect(all.used.get('tokens')).toBe(1001)
  })
})

describe('what a backend counts without text', () => {
  const sound = (tokens: number, finishReason?: string): string =>
    sse({
      candidates: [{ content: { parts: [{ inlineData: { mimeType: 'audio/pcm', data: 'AAAA' } }] }, finishReason }],
      usageMetadata: { promptTokenCount: 0, candidatesTokenCount: tokens },
    })
  const thought = (tokens: number, reason: string | null = null): string =>
    sse({
      choices: [{ index: 0, delta: {}, finish_reason: reason }],
      usage: { prompt_tokens: 0, completion_tokens: tokens },
    })

  test.each([
    ['sound', false, sound],
    ['sound', true, sound],
    ['reasoning that is not shown', false, thought],
    ['reasoning that is not shown', true, thought],
  ])('is cut where the budget ends: %s (answers are late: %s)', async (_what, isDelayed, event) => {
    const { all, stream } = await opened(1000, { isDelayed })
    for (let tokens = 20; tokens < 3000 && !stream.isOver; tokens += 20) {
      stream.readBytes(event(tokens))
      await answerAll(all)
    }
    expect(stream.isOver).toBe(true)
    expect(stream.delivered).toMatch(/"finish_?[rR]eason":"(length|MAX_TOKENS)"/)
    await all.settled()
    expect(all.used.get('tokens')).toBeLessThanOrEqual(1020)
    expect(all.used.get('tokens')).toBeGreaterThan(950)
    expect(all.truncations).toHaveLength(1)
  })

  test.each([
    ['Gemini', sound(3000, 'STOP')],
    ['chat', thought(3000, 'stop')],
  ])('and comes with the end passes, and is charged: %s', async (_api, last) => {
    const { all, stream } = await opened(1000)
    stream.readBytes(last)
    expect(stream.isOver).toBe(false)
    stream.end('whole')
    await all.settled()
    expect(stream.delivered).toBe(last)
    expect([all.truncations, all.used.get('tokens')]).toEqual([[], 3000])
  })

  test('is not cut in shadow mode', async () => {
    const all = newStreams(1000, { mode: 'shadow' })
    const stream = (await all.open(0))!
    for (let tokens = 100; tokens <= 3000; tokens += 100) stream.readBytes(thought(tokens))
    expect([stream.isOver, stream.delivered]).toEqual([false, expect.not.stringContaining('"length"')])
  })

  test('results of tools that go back to the model cut the stream at its next text', async () => {
    const text = (usageMetadata: object): string => sse({ candidates: [{ content: { parts: [{ text: '####' }] } }], usageMetadata })
    const { all, stream } = await opened(1000)
    stream.readBytes(text({ promptTokenCount: 3, totalTokenCount: 4 }))
    stream.readBytes(text({ promptTokenCount: 3, toolUsePromptTokenCount: 5000, totalTokenCount: 5005 }))
    expect([stream.isOver, stream.tokens]).toEqual([true, 1])
    await all.settled()
    expect(all.used.get('tokens')).toBe(5005)
  })
})

describe('bytes of a backend', () => {
  const text = [said(150), ...Array.from({ length: 30 }, () => said(7))].join('')

  test('that come one by one are cut at the same place as in one read', async () => {
    const [whole, split] = [await opened(300), await opened(300)]
    whole.stream.readBytes(text)
    for (const byte of Buffer.from(text)) if (!split.stream.isOver) split.stream.readBytes(Buffer.of(byte))
    expect(split.stream.delivered).toBe(whole.stream.delivered)
    expect(whole.stream.delivered).toMatch(ENDED)
    await Promise.all([whole.all.settled(), split.all.settled()])
    expect([...split.all.used]).toEqual([...whole.all.used])
  })

  test('that are a part of an event when the stream is cut are not passed on', async () => {
    const { all, stream } = await opened(250, { isDelayed: true })
    stream.read(160, 91)
    stream.readBytes(said(50).slice(0, -5))
    await answerAll(all)
    expect([stream.isOver, stream.tokens]).toEqual([true, 251])
    expect(stream.delivered).toMatch(ENDED)
  })

  test.each([false, true])('that are one large event end it behind that event (answers are late: %s)', async (isDelayed) => {
    const { all, stream } = await opened(1000, { isDelayed })
    const huge = said(500_000)
    for (let from = 0; from < huge.length + 65_536 && !stream.isOver && !stream.isPaused; from += 65_536)
      stream.readBytes((huge + said(9)).slice(from, from + 65_536))
    await answerAll(all)
    expect(stream.isOver).toBe(true)
    expect(stream.delivered.startsWith(huge)).toBe(true)
    expect(stream.delivered.slice(huge.length)).toMatch(ENDED)
    await all.settled()
    expect(all.used.get('tokens')).toBeGreaterThanOrEqual(stream.tokens)
  })

  test('that are one event without end are cut', async () => {
    const { all, stream } = await opened(1000)
    stream.readBytes('data: {"choices":[{"delta":{"content":"')
    const text = 'All work and no play. '.repeat(3000)
    let passed = 0
    while (!stream.isOver && passed < 40 * 1024 * 1024) {
      stream.readBytes(text)
      passed += text.length
      if (stream.isPaused) await answerAll(all)
    }
    expect(stream.isOver).toBe(true)
    expect(passed).toBeLessThan(17 * 1024 * 1024)
    await all.settled()
    expect(all.used.get('tokens')).toBeGreaterThan(passed / 4)
  })

  test.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ] as const)('that are compressed with %s wait in the decoder, and are cut at the same place', async (coding, compress) => {
    const all = newStreams(700, { isDelayed: true })
    const stream = (await all.open(0, undefined, coding))!
    // Much more than a decoder gives out at once.
    stream.readBytes(compress(Array.from({ length: 2000 }, () => said(10)).join('')))
    while (!stream.isOver) {
      await until(() => stream.isOver || all.asks.length > 0)
      await all.asks.shift()?.answer()
    }
    expect(stream.delivered).toMatch(ENDED)
    await all.settled()
    expect(all.used.get('tokens')).toBeGreaterThanOrEqual(stream.tokens)
    // The last piece of a decoder is what one read is for others: 16 KiB, of which each event with 10 tokens has more than 200 bytes.
    expect(stream.tokens).toBeLessThanOrEqual(700 + 10 * Math.ceil(16_384 / 200))
  })
})

describe('a stream that waits', () => {
  test('and has sent its last text is not cut when it is refused: its end passes', async () => {
    const { all, stream } = await opened(250, { isDelayed: true })
    stream.read(160, 91)
    stream.readBytes(chatChunk({}, 'stop'))
    await answerAll(all)
    expect([stream.isOver, stream.isPaused]).toEqual([false, false])
    stream.readBytes(sse('[DONE]'))
    stream.end('whole')
    await all.settled()
    expect(stream.delivered).not.toContain('"length"')
    expect([all.truncations, all.used.get('tokens')]).toEqual([[], 251])
  })

  test.each(['whole', 'client_gone', 'backend_failed'] as const)('and ends, %s, gives back what is granted after that', async (how) => {
    const { all, stream } = await opened(1000, { isDelayed: true })
    stream.read(160, 50)
    expect(stream.isPaused).toBe(true)
    stream.end(how)
    await all.settled()
    expect(all.growths).toEqual(['tokens too_late', 'money too_late'])
    const used = 210
    expect(all.used.get('tokens')).toBe(used)
    let admitted = 0
    while ((await all.open(0)) !== undefined) admitted++
    expect(admitted).toBe(Math.floor((1000 - used) / 200))
  })
})
