import { afterAll, beforeAll, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'
import type { Answer } from '../support/service/http.ts'
import { ManualClock } from '../support/service/manual-clock.ts'

/** Specification: Resources and their fields; algorithm_config for token_bucket_llm. */

const clock = new ManualClock()
let edge: Edge

beforeAll(async () => {
  const on = (path: string, config: object) =>
    policy(path, { selector: { pathPrefix: `/${path}` }, rules: [llmRule(path, ['header:x-caller'], config)] })
  edge = await Edge.start({
    clock,
    bundle: bundle(
      1,
      on('minute', { tokens_per_minute: 600, max_completion_tokens: 200 }),
      on('day', { tokens_per_day: 500, max_completion_tokens: 200 }),
      on('burst', { tokens_per_minute: 600, burst_tokens: 1000, max_completion_tokens: 500 }),
      on('both', { tokens_per_minute: 600, tokens_per_day: 700, max_completion_tokens: 300 }),
      on('streamed', { tokens_per_minute: 600, max_completion_tokens: 200, streaming: { enabled: true, buffer_tokens: 10 } }),
    ),
  })
})

afterAll(() => edge.stop())

function ask(path: string, caller: string, fields: readonly (readonly [string, string])[] = []): Promise<Answer> {
  return edge.decide({ uri: `/${path}`, method: 'POST', fields: [['X-Caller', caller], ...fields] })
}

async function statuses(path: string, caller: string, times: number): Promise<number[]> {
  const answers: number[] = []
  for (let i = 0; i < times; i++) answers.push((await ask(path, caller)).status)
  return answers
}

function untilMidnightMs(): number {
  return 86_400_000 - (clock.wallMs() % 86_400_000)
}

test('[llm-2] tokens_per_minute is the budget of a minute: a spent one is whole again a minute later', async () => {
  expect(await statuses('minute', 'ann', 4)).toEqual([200, 200, 200, 429])
  clock.advance(60_000)
  expect(await statuses('minute', 'ann', 4)).toEqual([200, 200, 200, 429])
})

test('[llm-3] tokens_per_day is the budget of a day, which ends at midnight UTC', async () => {
  expect(await statuses('day', 'ben', 3)).toEqual([200, 200, 429])
  clock.advance(untilMidnightMs() - 1)
  const justBefore = await ask('day', 'ben')
  expect([justBefore.status, justBefore.headers['x-edge-reason'], justBefore.headers['retry-after']]).toEqual([429, 'tpd_exceeded', '1'])
  clock.advance(1)
  expect(await statuses('day', 'ben', 3)).toEqual([200, 200, 429])
})

test('[llm-4] burst_tokens is how much of the minute budget can be had at one moment', async () => {
  const first = await ask('burst', 'cora')
  expect([first.headers['ratelimit-limit'], first.headers['ratelimit-remaining']]).toEqual(['1000', '500'])
  expect(await statuses('burst', 'cora', 2)).toEqual([200, 429])
  clock.advance(50_000) // 500 tokens at 600 a minute
  expect(await statuses('burst', 'cora', 2)).toEqual([200, 429])
})

test('[llm-5] max_completion_tokens is what each request reserves from the budget', async () => {
  const { headers } = await ask('minute', 'dan')
  expect([headers['ratelimit-limit'], headers['ratelimit-remaining']]).toEqual(['600', '400'])
})

test('[llm-6] minute and day are taken from together or not at all', async () => {
  expect(await statuses('both', 'fay', 2)).toEqual([200, 200])
  clock.advance(untilMidnightMs() - 1)
  const beyondTheDay = await ask('both', 'fay')
  expect([beyondTheDay.status, beyondTheDay.headers['x-edge-reason']]).toEqual([429, 'tpd_exceeded'])
  expect(await statuses('both', 'fay', 2)).toEqual([429, 429])
  clock.advance(1)
  // The minute bucket had refilled, and what the day refused took nothing from it: 600 still buy two.
  expect(await statuses('both', 'fay', 3)).toEqual([200, 200, 429])
})

test('[llm-7] a streaming object changes nothing before there is a stream', async () => {
  const { headers } = await ask('streamed', 'gus', [['Accept', 'text/event-stream']])
  expect([headers['ratelimit-limit'], headers['ratelimit-remaining']]).toEqual(['600', '400'])
})
