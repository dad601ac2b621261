import fc from 'fast-check'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ClockedInstance } from '../../../test/support/redis/clocked-instance.ts'
import { ClockedLink, clockedScripts } from '../../../test/support/redis/clocked-link.ts'
import { OpenInstance, type OpenRequest } from '../../../test/support/redis/open-instance.ts'
import { usableLink } from '../../../test/support/redis/recorded-link.ts'
import { type RedisServer, runningRedis } from '../../../test/support/redis/redis-server.ts'
import { describeWithRedis } from '../../../test/support/redis/redis-suite.ts'
import { runs } from '../../../test/support/run/property-runs.ts'
import { thisSuite } from '../../../test/support/service/suite-owner.ts'
import { bucketLimit, dayLimit } from '../../../test/support/store/charging.ts'
import { OpenReturns } from './open-returns.ts'

const START_MS = Date.UTC(2026, 2, 7, 12)
const DAY_MS = 86_400_000
const SIZE = 1_000_000
const LOOK_MS = 10_000
/** Longer than a thread may be silent. */
const SILENCE_MS = 21_000

describeWithRedis('what requests in flight have reserved in Redis', () => {
  const suite = thisSuite()
  let redis: RedisServer
  let link: ClockedLink
  let prefix = ''
  let stores = 0
  let one: OpenInstance
  let viewer: ClockedInstance
  const logged: Record<string, unknown>[] = []

  beforeAll(async () => {
    redis = await runningRedis({}, suite)
    link = new ClockedLink((await usableLink(redis.url, 60_000, suite)).link)
  })
  beforeEach(async () => {
    await redis.command('FLUSHALL')
    begin()
  })

  const begin = (): void => {
    passTo(0)
    prefix = `edge:${stores++}:`
    one = new OpenInstance(link, prefix, 'one')
    viewer = new ClockedInstance(link, prefix)
    logged.length = 0
  }
  const passTo = (ms: number): void => {
    link.nowMs = ms
    link.wallMs = START_MS + ms
  }
  const pass = (ms: number): void => passTo(link.nowMs + ms)
  const day = () => one.store.open({ identity: ['day'], limit: dayLimit(SIZE), sinceMs: 0 })
  const bucket = () => one.store.open({ identity: ['bucket'], limit: bucketLimit(1e-12, SIZE), sinceMs: 0 })
  const used = async (counter = day()) => SIZE - (await viewer.left(counter))
  const newReturns = (): OpenReturns => {
    const onReturned = (instance: string, returned: object): void => void logged.push({ instance, ...returned })
    const command = (name: string, key: string, ...args: string[]) => redis.command(name, key, ...args)
    const parts = {
      link: { run: link.run.bind(link), command },
      scripts: clockedScripts(),
      prefix,
      clock: { nowMs: () => link.nowMs },
      onReturned,
    }
    return new OpenReturns(parts)
  }
  /** Looks until silent threads have been noticed. */
  const look = async (...returns: readonly OpenReturns[]): Promise<void> => {
    for (let i = 0; i < 3; i++) {
      await Promise.all(returns.map((each) => each.look()))
      pass(LOOK_MS)
    }
  }

  describe('of an instance that died', () => {
    test.for(['day', 'bucket'] as const)('is given back once, less what they had used, however many look: %s', async (kind) => {
      const counter = kind === 'day' ? day() : bucket()
      for (const requested of [100, 200, 300]) (await one.reserve(requested, counter))!.used = 10
      await one.records.beat()
      expect(await used(counter)).toBe(600)
      pass(SILENCE_MS)
      const [first, second] = [newReturns(), newReturns()]
      await look(first, second)
      expect(await used(counter)).toBe(30)
      await look(first, second, newReturns())
      expect(await used(counter)).toBe(30)
      expect(logged).toMatchObject([{ instance: 'one', records: 3, tokens: 570, kept_tokens: 30 }])
      expect(await redis.command('ZCARD', `${prefix}open`)).toBe(0)
    })

    test('stays spent if it was never reported, and nothing is given back while it is heard of', async () => {
      const counter = day()
      await one.reserve(100, counter)
      await one.records.beat()
      await one.reserve(1000, counter)
      const returns = newReturns()
      for (let i = 0; i < 6; i++) {
        await returns.look()
        pass(LOOK_MS)
        if (i < 2) await one.records.beat()
        if (i === 2) expect(await used(counter)).toBe(1100)
      }
      expect(await used(counter)).toBe(0)
      expect(logged).toMatchObject([{ records: 2 }])
    })

    test('gives nothing to the next window, nor to a counter that was reset', async () => {
      const counter = day()
      await one.reserve(100, counter)
      await one.records.beat()
      pass(DAY_MS)
      await viewer.take(70, counter)
      await look(newReturns())
      expect(await used(counter)).toBe(70)

      const other = bucket()
      await one.reserve(100, other)
      await one.records.beat()
      await viewer.reset(other)
      await viewer.take(70, other)
      pass(SILENCE_MS)
      await look(newReturns())
      expect(await used(other)).toBe(70)
    })

    test('gives nothing to a Redis that has lost its data', async () => {
      const counter = day()
      await one.reserve(100, counter)
      await one.records.beat()
      await redis.command('FLUSHALL')
      await viewer.take(70, counter)
      pass(SILENCE_MS)
      await look(newReturns())
      expect(await used(counter)).toBe(70)
      expect(logged).toEqual([])
    })

    test('is given back in slices, by whoever is left', async () => {
      const counter = day()
      for (let i = 0; i < 120; i++) await one.reserve(1, counter)
      await one.records.beat()
      pass(SILENCE_MS)
      await look(newReturns())
      expect(await used(counter)).toBe(0)
      expect(logged).toMatchObject([{ records: 120, tokens: 120 }])
    })
  })

  describe('of an instance that was only stopped', () => {
    const returned = async (): Promise<{ request: OpenRequest; counter: ReturnType<typeof day> }> => {
      const counter = day()
      const request = (await one.reserve(100, counter))!
      request.used = 10
      await one.records.beat()
      pass(SILENCE_MS)
      await look(newReturns())
      expect(await used(counter)).toBe(10)
      return { request, counter }
    }

    test('is charged in full when it settles', async () => {
      const { request, counter } = await returned()
      request.used = 70
      await one.settle(request)
      expect(await used(counter)).toBe(70)
      await look(newReturns())
      expect(await used(counter)).toBe(70)
    })

    test('is charged again when it is heard of again, and settled as ever', async () => {
      const { request, counter } = await returned()
      await one.records.beat()
      expect(await used(counter)).toBe(100)
      request.used = 70
      await one.settle(request)
      expect(await used(counter)).toBe(70)
      pass(SILENCE_MS)
      await look(newReturns())
      expect(await used(counter)).toBe(70)
    })

    test('is charged in the window that it was taken from', async () => {
      const { request, counter } = await returned()
      pass(DAY_MS)
      await viewer.take(7, counter)
      request.used = 70
      await one.settle(request)
      expect(await used(counter)).toBe(7)
    })
  })

  test('a thread that was believed to be dead, though it was heard of, notices that and charges its records again', async () => {
    const counter = day()
    await one.reserve(100, counter)
    const returns = newReturns()
    await one.records.beat()
    await returns.look()
    pass(LOOK_MS)
    link.wallMs += 60_000
    await returns.look()
    expect(await used(counter)).toBe(0)
    await one.records.beat()
    expect(await used(counter)).toBe(100)
  })

  test('what a settlement leaves behind while a report is on its way is gone a day later, however long its thread goes on', async () => {
    const counter = day()
    one.isDelaying = true
    for (let hour = 0; hour < 3; hour++) {
      const request = (await one.reserve(100, counter))!
      await one.records.beat()
      await one.settle(request)
      pass(3_600_000)
    }
    // Each hash expires by itself: nothing is written to it after its hour.
    expect(await redis.command('KEYS', `${prefix}open:*`)).toHaveLength(3)
    expect(await used(counter)).toBe(0)
  })

  test('a Redis that was away gives the living time to be heard', async () => {
    const counter = day()
    await one.reserve(100, counter)
    await one.records.beat()
    const returns = newReturns()
    await returns.look()
    pass(60_000)
    await returns.look()
    await one.records.beat()
    pass(LOOK_MS)
    await returns.look()
    expect(await used(counter)).toBe(100)
  })

  test('a settlement after Redis lost its data gives back all that was not used, as without a record', async () => {
    const counter = day()
    const request = (await one.reserve(100, counter))!
    await one.records.beat()
    await redis.command('FLUSHALL')
    pass(1000)
    // The record is created anew from what the instance itself has spent.
    await one.reserve(5, counter)
    expect(await used(counter)).toBe(105)
    request.used = 70
    await one.records.beat()
    await one.settle(request)
    expect(await used(counter)).toBe(75)
  })

  test('a settlement whose record was evicted gives back nothing that may have been given back before', async () => {
    const counter = day()
    const request = (await one.reserve(100, counter))!
    request.used = 10
    await one.records.beat()
    pass(SILENCE_MS)
    await look(newReturns())
    for (const key of (await redis.command('KEYS', `${prefix}open*`)) as string[]) await redis.command('DEL', key)
    // A report does not begin the record anew: it would be given back once more.
    request.used = 20
    await one.records.beat()
    expect(await redis.command('KEYS', `${prefix}open*`)).toEqual([`${prefix}open`])
    request.used = 70
    await one.settle(request)
    expect(await used(counter)).toBe(70)
  })

  test.for(['lost', 'unheard', 'delayed'] as const)('a settlement that was %s is sent again, and done once', async (fate) => {
    const counter = day()
    const request = (await one.reserve(100, counter))!
    await one.records.beat()
    request.used = 70
    one.closes = fate
    await one.settle(request)
    expect(await used(counter)).toBe(fate === 'unheard' ? 70 : 100)
    one.closes = 'done'
    await one.sendUnsent()
    for (const arrive of one.delayed) await arrive()
    expect(await used(counter)).toBe(70)
    pass(SILENCE_MS)
    await look(newReturns())
    expect(await used(counter)).toBe(70)
  })

  test('in a prefix whose braces move records to another slot, nothing is reported', async () => {
    const odd = new OpenInstance(link, prefix, 'odd', (key) => key.length)
    await odd.reserve(100, day())
    await odd.records.beat()
    expect(await redis.command('KEYS', `${prefix}open*`)).toEqual([])
  })

  const anyStep = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('reserve' as const), amount: fc.integer({ min: 1, max: 500 }), at: fc.nat(9) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('use' as const), share: fc.integer({ min: 0, max: 150 }), at: fc.nat(99) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('beat' as const), at: fc.nat(9) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('delay' as const), at: fc.nat(9) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('arrive' as const), at: fc.nat(99) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('return' as const), at: fc.nat(9) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('settle' as const), at: fc.nat(99) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('closes' as const),
        fate: fc.constantFrom('done' as const, 'lost' as const, 'unheard' as const, 'delayed' as const),
        at: fc.nat(9),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('resend' as const), at: fc.nat(9) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('die' as const), at: fc.nat(9) }) },
  )

  test('whoever dies, stops, or is believed to be dead, in whatever order calls arrive: nothing is given back twice', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 5, maxLength: 60 }), async (steps) => {
        begin()
        const instances = ['a', 'b', 'c'].map((owner) => new OpenInstance(link, prefix, owner))
        const dead = new Set<OpenInstance>()
        const counters = [day(), bucket()]
        /** Settled requests, and whether Redis may not have heard of that. */
        const settled: { readonly instance: OpenInstance; readonly request: OpenRequest; readonly isDoubtful: boolean }[] = []
        /** What each request has said at some time that it would use. */
        const said = new Map<OpenRequest, number[]>()
        const pick = <Item>(items: readonly Item[], at: number): Item | undefined => items[at % Math.max(1, items.length)]
        const hasDelayed = new Set<OpenInstance>()
        const settle = async (instance: OpenInstance, request: OpenRequest): Promise<void> => {
          settled.push({ instance, request, isDoubtful: instance.closes !== 'done' })
          await instance.settle(request)
        }
        const resend = async (instance: OpenInstance): Promise<void> => {
          instance.closes = 'done'
          await instance.sendUnsent()
        }
        for (const step of steps) {
          const alive = instances.filter((instance) => !dead.has(instance))
          const instance = pick(alive, step.at)
          const request = instance && pick([...instance.requests], step.at)
          if (step.do === 'reserve') await instance?.reserve(step.amount, ...counters)
          if (step.do === 'use' && request) request.used = Math.max(request.used, Math.floor((request.amount * step.share) / 100))
          if ((step.do === 'beat' || step.do === 'delay') && instance) {
            for (const each of instance.requests) said.set(each, [...(said.get(each) ?? []), Math.min(each.used, each.amount)])
            instance.isDelaying = step.do === 'delay'
            if (instance.isDelaying) hasDelayed.add(instance)
            await instance.records.beat()
          }
          if (step.do === 'arrive')
            await pick(
              instances.flatMap(({ delayed }) => delayed.splice(0, 1)),
              step.at,
            )?.()
          if (step.do === 'return') {
            if (step.at % 2 === 0) pass(SILENCE_MS)
            await look(newReturns())
          }
          if (step.do === 'closes' && instance) instance.closes = step.fate
          if (step.do === 'resend' && instance) await resend(instance)
          if (step.do === 'settle' && instance && request) await settle(instance, request)
          if (step.do === 'die' && instance && alive.length > 1) dead.add(instance)
        }
        const alive = instances.filter((instance) => !dead.has(instance))
        for (const instance of alive) await resend(instance)
        for (const { delayed } of instances) for (const arrive of delayed.splice(0)) await arrive()
        for (const instance of alive) for (const request of [...instance.requests]) await settle(instance, request)
        pass(SILENCE_MS)
        await look(newReturns())
        let [least, most] = [0, 0]
        for (const { instance, request, isDoubtful } of settled) {
          const { used: known, amount } = request
          // A settlement that its instance could not repeat is like a death; one whose record Redis may not have is repeated in vain.
          const isLost = isDoubtful && dead.has(instance)
          least += isLost ? Math.min(known, ...(said.get(request) ?? [])) : known
          most += isLost || (isDoubtful && hasDelayed.has(instance)) ? Math.max(known, amount) : known
        }
        for (const instance of dead) {
          for (const request of instance.requests) {
            const reported = said.get(request) ?? [request.amount]
            least += hasDelayed.has(instance) ? Math.min(...reported) : reported.at(-1)!
            most += hasDelayed.has(instance) ? request.amount : reported.at(-1)!
          }
        }
        for (const counter of counters) {
          const sum = await used(counter)
          expect([sum, least, most]).toEqual([Math.min(Math.max(sum, least), most), least, most])
        }
      }),
      { numRuns: runs(15) },
    )
  })
})
