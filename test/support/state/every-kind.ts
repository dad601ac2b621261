import { expect } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../bundles/bundles.ts'
import type { Environment } from '../service/running.ts'
import { untilLogged } from '../service/until-logged.ts'
import { BURST, decide, HARDLY_ANY, type KeptCounters, take } from './kept-counters.ts'

/** What a decision reserves. */
const COMPLETION = 10
const DAY_TOKENS = 1000
const MINUTE_TOKENS = 2000

/** A rule for each kind of counter. */
export const ALL_KINDS = bundle(
  1,
  policy('p', {
    rules: [
      bucketRule('bucket', ['header:x-caller'], BURST, HARDLY_ANY),
      llmRule('day', ['header:x-day'], { tokens_per_day: DAY_TOKENS, max_completion_tokens: COMPLETION }),
      llmRule('minute', ['header:x-minute'], { tokens_per_minute: 1, burst_tokens: MINUTE_TOKENS, max_completion_tokens: COMPLETION }),
    ],
  }),
)

interface Kept {
  readonly port: number
  logged(name: string): Record<string, unknown>[]
  stop(): Promise<unknown>
}

/** Spends of every kind, before two restarts and after them. */
export async function goOnOfEveryKind(kept: KeptCounters, start: (env: Environment) => Promise<Kept>): Promise<void> {
  const first = await start({})
  expect(await untilLogged(first, 'state_new')).toMatchObject([{ path: kept.statePath }])
  expect(await takeAllKinds(first, 3)).toEqual([BURST - 3, DAY_TOKENS - 30, minute(30)])
  expect(await take(first, BURST, 'greedy')).toBe(0)
  await first.stop()

  const second = await start({ EDGE_STORE_SIZE: '4m' })
  expect(await untilLogged(second, 'state_loaded')).toMatchObject([{ path: kept.statePath, counters: 4 }])
  expect(await takeAllKinds(second, 2)).toEqual([BURST - 5, DAY_TOKENS - 50, minute(50)])
  const rejected = await decide(second, 'X-Caller', 'greedy')
  expect(rejected).toMatchObject({ status: 429, headers: { 'x-edge-reason': 'token_bucket_exceeded' } })
  await second.stop()

  const third = await start({})
  expect(await takeAllKinds(third, 1)).toEqual([BURST - 6, DAY_TOKENS - 60, minute(60)])
}

/** What the minute has left, less what may have come back: a token a minute. */
function minute(spent: number): unknown {
  return expect.closeTo(MINUTE_TOKENS - spent, -1)
}

async function takeAllKinds(kept: Kept, times: number): Promise<number[]> {
  const left: number[] = []
  for (const name of ['X-Caller', 'X-Day', 'X-Minute']) left.push(await take(kept, times, 'alice', name))
  return left
}
