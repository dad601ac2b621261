import { describe, expect, test } from 'vitest'
import { type GrowingOptions, GrowingStreams, type PlayedStream } from '../../../test/support/llm/growing-streams.ts'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { MapStore } from '../../../test/support/store/map-store.ts'

/** Two rules, of tokens and of money, ask at the same places: `first` is 200 and `step` 100. */
async function opened(
  budget: number,
  options: GrowingOptions = {},
  bound?: number,
): Promise<{ all: GrowingStreams; stream: PlayedStream }> {
  const all = new GrowingStreams(new MapStore(), new ManualClock(), budget, { isDelayed: true, ...options })
  return { all, stream: (await all.open(0, bound))! }
}

const amounts = (all: GrowingStreams): number[] => all.asks.map(({ amount }) => amount)
async function answerAll(all: GrowingStreams): Promise<void> {
  for (const ask of all.asks.splice(0)) await ask.answer()
}

describe('a growing reservation whose store answers later', () => {
  test('lets events pass while something is left, and asks only once at a time', async () => {
    const { all, stream } = await opened(1000)
    stream.read(150)
    expect(amounts(all)).toEqual([])
    stream.read(1)
    stream.read(20, 20)
    expect(amounts(all)).toEqual([100, 100_000])
    expect([stream.isPaused, stream.tokens]).toEqual([false, 191])
  })

  test('pauses the backend when all is used up, until the answer comes', async () => {
    const { all, stream } = await opened(1000)
    stream.read(160, 50)
    expect([stream.isPaused, stream.tokens]).toEqual([true, 210])
    await all.asks.shift()!.answer()
    // Money has not been answered.
    expect(stream.isPaused).toBe(true)
    await all.asks.shift()!.answer()
    expect([stream.isPaused, stream.isOver]).toEqual([false, false])
    stream.read(10)
    expect(stream.tokens).toBe(220)
  })

  test('asks for what one read has used beyond it, too, and stays paused until that is granted', async () => {
    const { all, stream } = await opened(1000)
    stream.read(160, 300)
    expect(amounts(all)).toEqual([100, 100_000])
    await answerAll(all)
    expect([stream.isPaused, amounts(all)]).toEqual([true, [260, 260_000]])
    await answerAll(all)
    expect(stream.isPaused).toBe(false)
    stream.end('whole')
    await all.settled()
    expect([...all.used]).toEqual([
      ['tokens', 460],
      ['money', 460_000],
    ])
  })

  test('is cut when all is used up and less and less is refused', async () => {
    const { all, stream } = await opened(250)
    stream.read(160, 60)
    expect(stream.isPaused).toBe(true)
    for (let i = 0; i < 20 && all.asks.length > 0; i++) await all.asks.shift()!.answer()
    // 220 are used, and 250 are granted at last: half a step, then what is left of it.
    expect([stream.isPaused, stream.isOver]).toEqual([false, false])
    stream.read(40)
    for (let i = 0; i < 50 && all.asks.length > 0; i++) await all.asks.shift()!.answer()
    expect(stream.isOver).toBe(true)
    expect(stream.delivered).toMatch(/"finish_reason":"length"\}\]\}\n\ndata: \[DONE\]\n\n$/)
    expect(all.truncations).toEqual(['tokens budget'])
    await all.settled()
    expect(all.used.get('tokens')).toBe(260)
  })

  test('does not cut a stream that has sent its end while it waited', async () => {
    const { all, stream } = await opened(250)
    stream.read(160, 100)
    stream.readBytes('data: [DONE]\n\n')
    stream.end('whole')
    await all.settled()
    expect(all.truncations).toEqual([])
    expect(all.growths).toHaveLength(2)
    expect(all.used.get('tokens')).toBe(260)
  })

  test('gives back what is granted when its stream is over', async () => {
    const { all, stream } = await opened(1000)
    stream.read(160)
    stream.end('client_gone')
    await all.settled()
    expect(all.growths).toEqual(['tokens too_late', 'money too_late'])
    // 840 are left, and each stream begins with 200.
    for (let i = 0; i < 4; i++) expect(await all.open(0)).toBeDefined()
    expect(await all.open(0)).toBeUndefined()
  })

  test('takes an error of the store for a refusal, and logs it', async () => {
    const { all, stream } = await opened(1000)
    stream.read(160, 50)
    // One ask of each budget came while something was left, and one when nothing was: the stream waits no longer than for that.
    for (let i = 0; i < 4 && all.asks.length > 0; i++) await all.asks.shift()!.fail()
    expect(stream.isOver).toBe(true)
    expect(all.logged).toContainEqual(expect.objectContaining({ event: 'reservation_not_grown', policy: 'p' }))
    expect(new Set(all.growths)).toEqual(new Set(['tokens unavailable', 'money unavailable']))
  })

  test('reserves no more than a stated bound, in at most 256 steps, and then asks no more', async () => {
    const { all, stream } = await opened(1_000_000, {}, 260)
    stream.read(190)
    expect(amounts(all)).toEqual([60, 60_000])
    await answerAll(all)
    stream.read(500)
    expect([amounts(all), stream.isPaused, stream.isOver]).toEqual([[], false, false])
    const long = await opened(1_000_000, {}, 512_000)
    long.stream.read(150)
    expect(amounts(long.all)).toEqual([2000, 2_000_000])
  })

  test('in shadow mode pauses nothing, and notes once where it would cut', async () => {
    const { all, stream } = await opened(250, { mode: 'shadow' })
    for (let i = 0; i < 40; i++) {
      stream.read(20)
      await answerAll(all)
    }
    expect([stream.isPaused, stream.isOver, stream.tokens]).toEqual([false, false, 800])
    expect(all.truncations.sort()).toEqual(['would money budget', 'would tokens budget'])
  })
})

describe('a rule that does not limit its caller any more', () => {
  test('lets the stream go on, and is asked again after a step', async () => {
    const { all, stream } = await opened(300, { isDelayed: false })
    all.engine.changeOverrides({
      put: [
        {
          override: {
            id: 'o',
            subject: 'all_policies',
            change: { kind: 'shadow' },
            sinceMs: 0,
            untilMs: 1e15,
            actor: 'a',
            reason: 'r',
            createdMs: 0,
          },
          fromMs: 0,
          toMs: 1e15,
        } as never,
      ],
      gone: [],
    })
    for (let i = 0; i < 50; i++) stream.read(20)
    expect([stream.isOver, stream.tokens]).toEqual([false, 1000])
    expect(new Set(all.growths)).toEqual(new Set(['tokens not_enforced', 'money not_enforced']))
    expect(all.growths.length).toBeLessThan(24)
  })
})
