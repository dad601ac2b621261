import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { ChargeResults, Charges, type Taken } from '../../src/store/charges.ts'
import { LinkError } from '../../src/store/redis/link/call.ts'
import { EmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { SharedTable } from '../../src/store/table/shared-table.ts'
import { newTableBuffer } from '../../src/store/table/table-layout.ts'
import { ClockedInstance } from '../support/redis/clocked-instance.ts'
import { ClockedLink } from '../support/redis/clocked-link.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { runs } from '../support/run/property-runs.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { inFlightLimit } from '../support/store/charging.ts'

const SLICE_MS = 125
const START_MS = Date.UTC(2026, 0, 15, 12)
const HOLDERS = 3

/** What becomes of the call of a step: it is done; it is lost on its way; or it is done, and nobody learns of it. */
type Fate = 'done' | 'lost' | 'unknown'

interface Step {
  readonly what: 'take' | 'renew' | 'release' | 'die'
  readonly holder: number
  /** Which of the open holds. */
  readonly which: number
  readonly pauseMs: number
  readonly fate: Fate
}

const step = (fate: fc.Arbitrary<Fate>): fc.Arbitrary<Step> =>
  fc.record({
    what: fc.constantFrom(
      'take' as const,
      'take' as const,
      'take' as const,
      'renew' as const,
      'renew' as const,
      'release' as const,
      'die' as const,
    ),
    holder: fc.nat(HOLDERS - 1),
    which: fc.nat(20),
    // Mostly within a slice or two; now and then so long that everything has ended.
    pauseMs: fc.oneof({ weight: 8, arbitrary: fc.nat(2 * SLICE_MS) }, { weight: 1, arbitrary: fc.nat(20 * SLICE_MS) }),
    fate,
  })

/** Counters that several holders share, any of whom may die. */
interface Holders {
  take(holder: number, fate: Fate): Promise<Taken | undefined>
  renew(holder: number, taken: Taken, fate: Fate): Promise<Taken>
  release(holder: number, taken: Taken, fate: Fate): Promise<void>
  /** Another begins in its place, which knows nothing. */
  die(holder: number): void
  left(): Promise<number>
}

test('threads on one table count the requests that are in flight, whoever takes, renews, releases or dies', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 6 }), fc.array(step(fc.constant('done')), { maxLength: 60 }), async (max, steps) => {
      let ms = 0
      await expectAsModelled(
        max,
        steps,
        threads(max, () => ms),
        (pauseMs) => {
          ms += pauseMs
          return ms
        },
      )
    }),
  )
})

describeWithRedis('instances on one Redis', () => {
  const suite = thisSuite()
  let link: ClockedLink
  let fleets = 0

  beforeAll(async () => {
    const redis = await runningRedis({}, suite)
    link = new ClockedLink((await usableLink(redis.url, 60_000, suite)).link)
  })

  test('count the requests that are in flight, whoever takes, renews, releases or dies, and whatever becomes of the calls', async () => {
    const fates = fc.constantFrom<Fate>('done', 'done', 'done', 'done', 'lost', 'unknown')
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 6 }), fc.array(step(fates), { maxLength: 40 }), async (max, steps) => {
        link.nowMs = 0
        link.wallMs = START_MS
        await expectAsModelled(max, steps, instances(max, link, `edge:${fleets++}:`), (pauseMs) => {
          link.nowMs += pauseMs
          link.wallMs += pauseMs
          return link.nowMs
        })
      }),
      { numRuns: runs(4) },
    )
  })
})

/** A request in flight: the slice in which all know it, unless they do not, and the one in which its holder does. */
interface Held {
  readonly holder: number
  taken: Taken
  sharedSlice: number | undefined
  ownSlice: number
}

async function expectAsModelled(max: number, steps: readonly Step[], holders: Holders, pass: (ms: number) => number): Promise<void> {
  let held: Held[] = []
  /** Slices of holds that nobody has any more. */
  const orphans: number[] = []
  let slice = 0
  const isLive = (at: number | undefined): boolean => at !== undefined && at > slice - 8
  const countOf = (slices: readonly (number | undefined)[]): number => slices.filter(isLive).length
  const shared = (): number => max - countOf([...held.map(({ sharedSlice }) => sharedSlice), ...orphans])
  const own = (holder: number): number => max - countOf(held.filter((each) => each.holder === holder).map(({ ownSlice }) => ownSlice))
  for (const { what, holder, which, pauseMs, fate } of steps) {
    slice = Math.floor((START_MS + pass(pauseMs)) / SLICE_MS)
    const one = held[which % Math.max(1, held.length)]
    if (what === 'take') {
      const fits = Math.min(shared(), own(holder)) >= 1
      const taken = await holders.take(holder, fate)
      expect(taken !== undefined).toBe(fits && fate === 'done')
      if (taken !== undefined) held.push({ holder, taken, sharedSlice: slice, ownSlice: slice })
      else if (fits && fate === 'unknown') orphans.push(slice)
    } else if (what === 'die') {
      holders.die(holder)
      for (const dead of held) if (dead.holder === holder && dead.sharedSlice !== undefined) orphans.push(dead.sharedSlice)
      held = held.filter((each) => each.holder !== holder)
    } else if (one !== undefined && what === 'renew') {
      one.taken = await holders.renew(one.holder, one.taken, fate)
      one.ownSlice = slice
      if (fate === 'lost' && one.sharedSlice !== undefined) orphans.push(one.sharedSlice)
      if (fate === 'unknown') orphans.push(slice)
      one.sharedSlice = fate === 'done' ? slice : undefined
    } else if (one !== undefined) {
      await holders.release(one.holder, one.taken, fate)
      if (fate === 'lost' && one.sharedSlice !== undefined) orphans.push(one.sharedSlice)
      held = held.filter((each) => each !== one)
    }
    expect(await holders.left()).toBe(shared())
  }
}

function threads(max: number, nowMs: () => number): Holders {
  const table = newTableBuffer(256 * 1024)
  const stores = Array.from({ length: HOLDERS }, (_, i) => new EmbeddedStore(new SharedTable(table, i + 1), [1, 2]))
  const charges = (cost: number): Charges => {
    const all = new Charges()
    all.add(stores[0]!.open({ identity: ['rule'], limit: inFlightLimit(max, SLICE_MS), sinceMs: 0 }), cost)
    return all
  }
  const wallMs = (): number => START_MS + nowMs()
  return {
    async take(holder) {
      const results = new ChargeResults()
      const isTaken = stores[holder]!.takeAll(charges(1), results, nowMs(), wallMs())
      return isTaken ? { wallMs: results.wallMs, momentMs: results.momentMs, from: results.takenFrom } : undefined
    },
    renew: async (holder, taken) => stores[holder]!.renewAll(charges(1), taken, nowMs(), wallMs()),
    release: async (holder, taken) => stores[holder]!.settleAll(charges(1), taken, nowMs(), wallMs()),
    die() {},
    async left() {
      const results = new ChargeResults()
      stores[0]!.checkAll(charges(0), results, nowMs(), wallMs())
      return results.levels[0]!
    },
  }
}

function instances(max: number, link: ClockedLink, prefix: string): Holders {
  const newInstance = (): ClockedInstance => new ClockedInstance(link, prefix)
  const all = Array.from({ length: HOLDERS }, newInstance)
  const stranger = newInstance()
  const counter = stranger.open(inFlightLimit(max, SLICE_MS))
  const error = new LinkError('unknown', 'timeout', 'no reply')
  const withFate = async <Result>(holder: number, fate: Fate, call: (instance: ClockedInstance) => Promise<Result>): Promise<Result> => {
    const instance = all[holder]!
    instance.onWayOut = () => (fate === 'lost' ? Promise.resolve(error) : undefined)
    instance.onWayBack = () => (fate === 'unknown' ? Promise.resolve(error) : undefined)
    return call(instance)
  }
  return {
    async take(holder, fate) {
      const { outcome, taken } = await withFate(holder, fate, (instance) => instance.take(1, counter))
      return outcome === true ? taken : undefined
    },
    renew: (holder, taken, fate) => withFate(holder, fate, (instance) => instance.renew(counter, taken)),
    release: (holder, taken, fate) => withFate(holder, fate, (instance) => instance.release(counter, taken)),
    die(holder) {
      all[holder] = newInstance()
    },
    left: () => stranger.left(counter),
  }
}
