import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Fields } from '../service/http.ts'
import { both, CHAT, HELLO, HELLO_TOKENS, type LlmProxy, llmProxy } from './llm-proxy.ts'
import { chatChunk, type LineEnd, RECORDED_STREAMS, sse, withLineEnds } from './llm-streams.ts'
import { type ScriptedCall, scriptedLlm } from './scripted-llm.ts'
import type { StreamClient } from './stream-client.ts'

/** The budget of the real proxy, over real sockets. */

const MAX = 8
const ASKED = { stream: true, messages: HELLO }
/** Streams that are longer than this are cut. */
const SETTINGS = { config: { max_completion_tokens: MAX }, streaming: { buffer_tokens: 1 } }
const PER_RUN = { limitKeys: ['header:x-run'], minuteTokens: 4000, dayTokens: 1900 }

const run = (id: number): Fields => [['X-Run', String(id)]]

export function llmBudgetSuite(chunkings: number, interleavings: number): void {
  describe('any chunking', () => {
    const chunking = fc.record({
      stream: fc.constantFrom(...RECORDED_STREAMS),
      lineEnd: fc.constantFrom<LineEnd>('\n', '\r\n', '\r'),
      cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), { maxLength: 40 }),
    })

    test('of any recorded stream gives the same forwarded bytes and the same count', async () => {
      let pieces: Buffer[] = []
      const backend = await scriptedLlm(async (call) => {
        call.begin()
        for (const piece of pieces) if (!call.isAborted) await call.write(piece)
        call.end()
      })
      const proxy = await llmProxy(backend, { ...SETTINGS, ...PER_RUN })
      let runs = 0
      const forward = async (chunks: Buffer[]) => {
        pieces = chunks
        const id = runs++
        const client = await proxy.open(CHAT, ASKED, run(id)).untilClosed()
        expect(client.outcome).toBe('whole')
        return { text: client.bytes.toString('latin1'), spent: await proxy.spent(run(id)) }
      }
      await fc.assert(
        fc.asyncProperty(chunking, async ({ stream, lineEnd, cuts }) => {
          const bytes = Buffer.from(withLineEnds(stream.text, lineEnd))
          const places = [0, ...cuts.map((cut) => Math.floor(cut * bytes.length)).sort((a, b) => a - b), bytes.length]
          const chunks = places.slice(1).map((to, i) => bytes.subarray(places[i], to))
          expect(await forward(chunks)).toEqual(await forward([bytes]))
        }),
        { numRuns: chunkings },
      )
    })
  })

  describe('any interleaving', () => {
    const END = fc.oneof(
      fc.constantFrom('done', 'eof', 'truncated', 'client_leaves', 'client_resets', 'leaves_at_done', 'backend_resets', 'status_500'),
      fc.constantFrom('leaves_before_head', 'resets_before_head', 'fails_before_head'),
      fc.record({ prompt: fc.integer({ min: 0, max: 50 }), completion: fc.integer({ min: 0, max: 50 }) }),
    )
    const plan = fc.record({
      texts: fc.array(fc.string({ minLength: 1, maxLength: 7, unit: 'grapheme-ascii' }), { maxLength: 4 }),
      end: END,
    })
    const scenario = fc.record({ plans: fc.array(plan, { minLength: 2, maxLength: 6 }), turns: fc.array(fc.nat(), { maxLength: 40 }) })
    /** Run side by side, each with a budget of its own. */
    const sideBySide = Math.min(interleavings, 20)

    test('of streams with any ends leaves the budget exact', async () => {
      const waiting = new Map<string, (call: ScriptedCall) => void>()
      const backend = await scriptedLlm((call) => waiting.get(String(call.req.headers['x-stream']))!(call))
      const proxy = await llmProxy(backend, { ...SETTINGS, ...PER_RUN })
      let ids = 0
      const reach = (id: string) => new Promise<ScriptedCall>((resolve) => waiting.set(id, resolve))
      await fc.assert(
        fc.asyncProperty(fc.array(scenario, { minLength: sideBySide, maxLength: sideBySide }), async (scenarios) => {
          const played = scenarios.map(async ({ plans, turns }) => {
            const key = run(ids++)
            const streams = plans.map(({ texts, end }) => playStream(proxy, reach, texts, end, [...key, ['X-Stream', `s${ids++}`]]))
            await interleave(streams, turns)
            return { key, expected: plans.reduce((sum, { texts, end }) => sum + costOf(texts, end), 0) }
          })
          for (const { key, expected } of await Promise.all(played)) expect(await proxy.spent(key)).toEqual(both(expected))
        }),
        { numRuns: Math.ceil(interleavings / sideBySide) },
      )
      const settled = Object.values(await proxy.settlements()).reduce((sum, count) => sum + count, 0)
      const allowed = await proxy.edge.metric('edge_decisions_total{action="allow",reason="all_rules_passed",policy="llm",route="/"}')
      expect(settled).toBe(allowed)
    })
  })
}

type End = string | { readonly prompt: number; readonly completion: number }

/** One stream, step by step: each step is over when its effect is there. */
async function* playStream(
  proxy: LlmProxy,
  reach: (id: string) => Promise<ScriptedCall>,
  texts: readonly string[],
  end: End,
  fields: Fields,
): AsyncGenerator<void> {
  const reached = reach(fields.at(-1)![1])
  const client = proxy.open(CHAT, ASKED, fields)
  const call = await reached
  yield
  if (end === 'status_500') return call.answer(500, { error: { message: 'no' } })
  if (end === 'fails_before_head') return call.reset()
  if (end === 'leaves_before_head') return client.abort()
  if (end === 'resets_before_head') return client.reset()
  call.begin()
  await client.untilHead()
  yield
  const sent = sentTexts(texts, end)
  for (let i = 0; i < sent.length; i++) {
    await call.write(`${chatChunk({ content: sent[i] })}: ${i}\n\n`)
    await client.untilText(`: ${i}\n\n`)
    yield
  }
  await finish(client, call, end)
}

async function finish(client: StreamClient, call: ScriptedCall, end: End): Promise<void> {
  if (end === 'client_leaves') return client.abort()
  if (end === 'client_resets') return client.reset()
  if (end === 'backend_resets') return call.reset()
  if (end === 'leaves_at_done') {
    // Two ends at once, which cost the same.
    call.end(sse('[DONE]'))
    return client.reset()
  }
  if (end === 'truncated') await call.write(chatChunk({ content: 'x'.repeat(4 * MAX + 4) }))
  else if (end === 'eof') call.end()
  else if (end === 'done') call.end(sse('[DONE]'))
  else {
    const { prompt, completion } = end as Exclude<End, string>
    const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
    call.end(sse({ choices: [], usage }) + sse('[DONE]'))
  }
  await client.untilClosed()
  expect(client.outcome).toBe('whole')
}

function costOf(texts: readonly string[], end: End): number {
  if (typeof end !== 'string') return end.prompt + end.completion
  if (end === 'status_500' || end === 'fails_before_head') return 0
  if (end === 'leaves_before_head' || end === 'resets_before_head') return HELLO_TOKENS
  const characters = sentTexts(texts, end).join('').length + (end === 'truncated' ? 4 * MAX + 4 : 0)
  if (characters === 0 && end === 'backend_resets') return 0
  // Nobody knows what a stream without text and usage has cost.
  if (characters === 0 && (end === 'done' || end === 'eof')) return HELLO_TOKENS + MAX
  return HELLO_TOKENS + Math.ceil(characters / 4)
}

/** Of a stream without text, two ends at once would not cost the same. */
function sentTexts(texts: readonly string[], end: End): readonly string[] {
  return end === 'leaves_at_done' && texts.join('') === '' ? ['abcd'] : texts
}

/** Gives each stream a turn as the numbers say, then to each that is left until none is. */
async function interleave(streams: AsyncGenerator<void>[], turns: readonly number[]): Promise<void> {
  const open = [...streams]
  for (let i = 0; open.length > 0; i++) {
    const place = (turns[i] ?? i) % open.length
    if ((await open[place]!.next()).done) open.splice(place, 1)
  }
}
