import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { CounterStore } from '../../src/store/counter-store.ts'
import { newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { GrowingStreams, type PlayedStream } from '../support/llm/growing-streams.ts'
import { ClockedInstance } from '../support/redis/clocked-instance.ts'
import { ClockedLink } from '../support/redis/clocked-link.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { runs } from '../support/run/property-runs.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { MapStore } from '../support/store/map-store.ts'

const BUDGET = 2000

type Act =
  | { readonly what: 'open'; readonly prompt: number; readonly bound: number | undefined }
  | { readonly what: 'read'; readonly which: number; readonly tokens: readonly number[] }
  | { readonly what: 'answer' | 'fail'; readonly which: number }
  | { readonly what: 'end'; readonly which: number; readonly how: 'whole' | 'client_gone' }

const which = fc.nat(9)
const anyAct: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      what: fc.constant('open' as const),
      prompt: fc.nat(50),
      bound: fc.option(fc.constantFrom(100, 300, 1000, 64_000), { nil: undefined }),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      what: fc.constant('read' as const),
      which,
      tokens: fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 6 }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ what: fc.constant('answer' as const), which }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('fail' as const), which }) },
  {
    weight: 1,
    arbitrary: fc.record({ what: fc.constant('end' as const), which, how: fc.constantFrom('whole' as const, 'client_gone' as const) }),
  },
)
const schedule = fc.array(anyAct, { minLength: 10, maxLength: 150 })
/** One stream that never ends, and ten at once. */
const READS: readonly Act[] = Array.from({ length: 60 }, () => ({ what: 'read', which: 0, tokens: [50, 50] }) as const)
const OPEN: Act = { what: 'open', prompt: 3, bound: undefined }
const EXAMPLES: (readonly Act[])[] = [
  [OPEN, ...READS.flatMap((read) => [read, { what: 'answer', which: 0 } as const, { what: 'answer', which: 0 } as const])],
  [
    ...Array.from({ length: 10 }, () => OPEN),
    ...READS.flatMap((read, i) => [{ ...read, which: i % 10 } as Act, { what: 'answer', which: i } as const]),
  ],
]

/** Plays a schedule. A backend that is paused sends nothing, and it obeys the bound of a request. Returns the streams that were admitted. */
async function play(all: GrowingStreams, acts: readonly Act[]): Promise<PlayedStream[]> {
  const streams: PlayedStream[] = []
  const left = new Map<PlayedStream, number>()
  for (const act of acts) {
    if (act.what === 'open') {
      const stream = await all.open(act.prompt, act.bound)
      if (stream === undefined) continue
      streams.push(stream)
      left.set(stream, act.bound ?? Number.POSITIVE_INFINITY)
      continue
    }
    if (act.what === 'answer' || act.what === 'fail') {
      const [ask] = all.asks.length === 0 ? [] : all.asks.splice(act.which % all.asks.length, 1)
      await ask?.[act.what]()
    }
    const stream = streams[act.which % streams.length]
    if (stream === undefined || stream.isOver) continue
    if (act.what === 'end') stream.end(act.how)
    else if (act.what === 'read' && !stream.isPaused) {
      const rest = left.get(stream)! - act.tokens.reduce((sum, each) => sum + each, 0)
      if (rest < 0) continue
      left.set(stream, rest)
      stream.read(...act.tokens)
    }
  }
  for (const stream of streams) stream.end('whole')
  await all.settled()
  return streams
}

/** What all streams come to is at most the budget and, for each of them, one read. */
async function check(all: GrowingStreams, acts: readonly Act[]): Promise<void> {
  const streams = await play(all, acts)
  const excess = streams.reduce((sum, { largestRead }) => sum + largestRead, 0)
  expect(all.used.get('tokens') ?? 0).toBeLessThanOrEqual(BUDGET + excess)
  expect(all.used.get('money') ?? 0).toBeLessThanOrEqual((BUDGET + excess) * 1000)
}

const examples = (): [Act[], boolean][] =>
  EXAMPLES.flatMap((acts) => [true, false].map((isDelayed): [Act[], boolean] => [[...acts], isDelayed]))

test.each<[string, () => CounterStore]>([
  ['a Map', () => new MapStore()],
  ['the table', () => newEmbeddedStore(256 * 1024)],
])('streams use at most the budget and one read each, whatever comes when, in %s', async (_, newStore) => {
  await fc.assert(
    fc.asyncProperty(schedule, fc.boolean(), (acts, isDelayed) =>
      check(new GrowingStreams(newStore(), new ManualClock(), BUDGET, { isDelayed }), acts),
    ),
    { numRuns: runs(30), examples: examples() },
  )
})

test('one stream uses nearly all of a budget that nobody else needs', async () => {
  const all = new GrowingStreams(new MapStore(), new ManualClock(), BUDGET, {})
  await play(all, EXAMPLES[0]!)
  expect(all.used.get('tokens')).toBeGreaterThan(BUDGET - 100 / 16)
})

describeWithRedis('streams use at most the budget and one read each, whatever comes when', () => {
  test('in Redis', async () => {
    const { link } = await usableLink((await runningRedis()).url, 60_000)
    let prefixes = 0
    await fc.assert(
      fc.asyncProperty(schedule, fc.boolean(), (acts, isDelayed) => {
        const clocked = new ClockedLink(link)
        clocked.wallMs = new ManualClock().wallMs()
        const { store } = new ClockedInstance(clocked, `edge:${prefixes++}:`)
        return check(new GrowingStreams(store, { nowMs: () => 0, wallMs: () => clocked.wallMs }, BUDGET, { isDelayed }), acts)
      }),
      { numRuns: runs(3) + EXAMPLES.length * 2, examples: examples() },
    )
  })
})
