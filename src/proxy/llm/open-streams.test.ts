import { setImmediate as nextTurn } from 'node:timers/promises'
import { pino } from 'pino'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ManualClock } from '../../../test/support/service/manual-clock.ts'
import { until } from '../../../test/support/until.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import { PlainRequestView } from '../../request/view.ts'
import type { Series } from '../../telemetry/metrics/metric-families.ts'
import { type OpenStream, OpenStreams } from './open-streams.ts'

const RULE = { name: 'r', policy: { id: 'p' } } as PlanRule
const PLAN = { cutsStreams: true } as Plan

describe('streams under way', () => {
  test('ten thousand of them are cut in turns, between which others are served', async () => {
    const { streams, cut, log, openStream } = newStreams()
    for (let i = 0; i < 10_000; i++) streams.add(openStream(`/${i % 2}`), PLAN)
    streams.cutBlocked()
    let turns = 0
    for (; log.length === 0; turns++) await nextTurn()
    expect([cut.length, new Set(cut)]).toEqual([5000, new Set(['/1'])])
    expect(turns).toBeGreaterThan(2)
    expect(log).toMatchObject([{ event: 'streams_cut', policy: 'p', rule: 'r', streams: 5000 }])
  })

  test('one that fails to end leaves the others to theirs', async () => {
    const { streams, cut, log, openStream } = newStreams()
    const failing = openStream('/1', () => {
      throw new Error('broken')
    })
    for (const stream of [openStream('/1'), failing, openStream('/1')]) streams.add(stream, PLAN)
    streams.cutBlocked()
    await until(() => log.length === 2)
    expect(cut).toHaveLength(2)
    expect(log.map(({ event }) => event)).toEqual(['internal_error', 'streams_cut'])
  })

  test('one that has ended by itself is not cut, and one is cut once', async () => {
    const { streams, cut, log, openStream } = newStreams()
    const [ended, open] = [openStream('/1'), openStream('/1')]
    streams.add(ended, PLAN)
    streams.add(open, PLAN)
    streams.cutBlocked()
    streams.cutBlocked()
    streams.delete(ended)
    await until(() => log.length > 0)
    await nextTurn()
    await nextTurn()
    expect([cut.length, log.length]).toEqual([1, 1])
  })

  test('one that was let pass before an override blocked it is looked at when it begins', () => {
    const { streams, cut, openStream, overridden, metrics } = newStreams()
    streams.add(openStream('/1'), PLAN)
    overridden.isBlocked = true
    streams.add(openStream('/1'), PLAN)
    streams.add(openStream('/0'), PLAN)
    expect(cut).toEqual(['/1'])
    expect(metrics.openStreams.count).toBe(2)
  })

  test('those that an override blocks are cut when it comes into force, not before', async () => {
    const { streams, cut, openStream, clock, metrics } = newStreams()
    for (const uri of ['/0', '/1', '/1']) streams.add(openStream(uri), PLAN)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const startMs = clock.nowMs()
    for (const inMs of [300, 100]) streams.cutBlockedAt(startMs + inMs)
    // The timer is early: by the clock of overrides, the moment has not come.
    clock.advance(99.5)
    vi.advanceTimersByTime(100)
    await nextTurn()
    expect(cut).toEqual([])
    clock.advance(0.5)
    vi.advanceTimersByTime(1)
    await until(() => cut.length === 2)
    expect([cut, metrics.openStreams.count]).toEqual([['/1', '/1'], 1])
    streams.add(openStream('/1'), PLAN)
    clock.advance(200)
    vi.advanceTimersByTime(200)
    await until(() => cut.length === 3)
    // Each moment cuts once.
    streams.add(openStream('/1'), PLAN)
    clock.advance(60_000)
    vi.advanceTimersByTime(60_000)
    await nextTurn()
    expect(cut).toHaveLength(3)
  })

  test('one that another plan has let pass is looked at when it begins', () => {
    const { streams, cut, openStream } = newStreams()
    streams.add(openStream('/1'), PLAN)
    expect(cut).toEqual([])
    streams.add(openStream('/1'), {} as Plan)
    streams.add(openStream('/0'), {} as Plan)
    expect(cut).toEqual(['/1'])
  })
})

/** Streams of `/1` are blocked. */
function newStreams() {
  const log: Record<string, unknown>[] = []
  const cut: string[] = []
  const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line)) })
  const metrics = { openStreams: { count: 0 } as Series, countStreamCut: () => {} }
  const overridden = { isBlocked: false }
  const clock = new ManualClock()
  const streams = new OpenStreams({
    engine: {
      plan: PLAN,
      active: undefined,
      cutsStreams: true,
      get cutsStreamsByOverride() {
        return overridden.isBlocked
      },
      findStreamCut: ({ uri }) => (uri === '/1' ? RULE : undefined),
    },
    metrics,
    logger,
    nowMs: () => clock.nowMs(),
  })
  const openStream = (uri: string, end = () => {}): OpenStream => ({
    view: new PlainRequestView({ method: 'GET', uri }),
    body: undefined,
    caller: undefined,
    cut() {
      end()
      for (const startMs = performance.now(); performance.now() < startMs + 0.002; );
      cut.push(uri)
    },
  })
  return { streams, cut, log, openStream, metrics, overridden, clock }
}
