import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { calendarOf } from '../../../src/limiter/calendar.ts'
import { ChargeResults, Charges, type OpenReservation } from '../../../src/store/charges.ts'
import { ControlScript, controlEntryText } from '../../../src/store/redis/control-script.ts'
import { recordHash } from '../../../src/store/redis/counter-rows.ts'
import { FleetCounter } from '../../../src/store/redis/fleet-counter.ts'
import { FleetStore } from '../../../src/store/redis/fleet-store.ts'
import { OpenRecords } from '../../../src/store/redis/open-records.ts'
import { counterScripts, ReservationScript } from '../../../src/store/redis/scripts.ts'
import { SharedCounters } from '../../../src/store/redis/shared-counters.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { systemClock } from '../../../src/time/clock.ts'
import { usableLink } from '../../support/redis/recorded-link.ts'
import { type RedisServer, redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { bucketLimit, dayLimit } from '../../support/store/charging.ts'

const SIZE = 100

describeWithRedis('a Redis user with the documented rights', () => {
  const shared = redisOfSuite()

  test.for([
    ['bucket', bucketLimit(1e-9, SIZE)],
    ['window', { ...dayLimit(SIZE), calendar: calendarOf('1y', 'UTC') }],
  ] as const)('can take from a %s, check, settle, give back and reset it', async ([, limit]) => {
    const { link, errors } = await linkOfUser(shared())
    const counters = new SharedCounters(link, counterScripts(), { prefix: 'edge:', maxSlackMs: 0 }, { onUnknownOutcome() {} })
    const parts = { shared: counters, local: newEmbeddedStore(64 * 1024), failureMode: 'closed', clock: systemClock } as const
    const store = new FleetStore({ ...parts, listener: { onDecided() {} } })
    const counter = store.open({ identity: ['rule'], limit, sinceMs: 0 })
    const chargesOf = (cost: number) => {
      const charges = new Charges()
      charges.add(counter, cost)
      return charges
    }
    const results = new ChargeResults()
    const at = () => [systemClock.nowMs(), systemClock.wallMs()] as const
    const left = async () => {
      expect(await store.checkAll(chargesOf(1), results, ...at())).toBe(true)
      return Math.round(results.levels[0]!)
    }
    expect(await store.takeAll(chargesOf(70), results, ...at())).toBe(true)
    await store.settleAll(chargesOf(20), { ...results, from: 'shared' }, ...at())
    expect(await left()).toBe(SIZE - 50)
    const own = { levels: new Float64Array([SIZE]), resetsMs: new Float64Array(1) }
    const [nowMs, wallMs] = at()
    const calls = counters.callsFor('take', { charges: chargesOf(10), own, rows: [0], nowMs, wallMs })!
    expect(await counters.ask(calls, chargesOf(10), results)).toBe(true)
    await counters.giveBack(calls)
    expect(await left()).toBe(SIZE - 50)
    await store.resetAll(chargesOf(0), ...at())
    expect(await left()).toBe(SIZE)
    expect(errors).toEqual([])
  })

  test('can mark reservations as settled, and leave and read corrections', async () => {
    const { link, errors } = await linkOfUser(shared())
    const script = new ReservationScript(link)
    expect(await script.mark('edge:settled:1', 7, 60_000)).toBe(false)
    expect(await script.mark('edge:settled:1', 7, 60_000)).toBe(true)
    expect(await script.leave('edge:corrections:1', 'entry', 10, 60_000)).toBe(true)
    expect(await script.read('edge:corrections:1', 10)).toEqual(['entry'])
    expect(await script.read('edge:corrections:1', 10)).toEqual([])
    expect(errors).toEqual([])
  })

  test('can keep records of requests in flight, and give back what they say', async () => {
    const { link, errors } = await linkOfUser(shared())
    const clocked = { run: link.run.bind(link), groupOf: () => 0, isUsable: () => true }
    const scripts = counterScripts()
    const counters = new SharedCounters(clocked, scripts, { prefix: 'edge:', maxSlackMs: 0 }, { onUnknownOutcome() {} })
    const charges = new Charges()
    charges.add(
      new FleetCounter({ identity: ['rule'], limit: dayLimit(SIZE), sinceMs: 0 }, newEmbeddedStore(64 * 1024).lookupOf(['rule'])),
      10,
    )
    const taken = { wallMs: Date.now(), momentMs: Date.now(), from: 'shared' } as const
    const holder: OpenReservation['holder'] = {}
    const source = { hasUnsettled: true, openReservations: () => [{ holder, taken, isMoney: false, parts: [{ charges, taken, kept: 0 }] }] }
    await new OpenRecords({ link: clocked, scripts, prefix: 'edge:', owner: 'one', clock: systemClock, source }).beat()
    expect(holder.open!.known).toBe(10)
    const hash = recordHash('edge:', holder.open!.keys[0]!, holder.open!.owner)
    expect(await link.run(scripts.open, [holder.open!.keys[0]!, hash], ['settle', [0], 'return', '10'])).toEqual([0, 1, 0, 0, 0, 0])
    charges.open = holder.open
    expect(await counters.settle(charges, taken, 0)).toBe(true)
    expect(await link.run(scripts.openIndex, ['edge:open'], ['due', '1000', '10'])).toEqual([])
    await link.command('zrem', 'edge:open', 'any')
    expect(errors).toEqual([])
  })

  test('can share overrides and resets', async () => {
    const { link, errors } = await linkOfUser(shared())
    const script = new ControlScript(link, 'edge:')
    const forgetMs = Date.now() + 60_000
    const entry = controlEntryText({ momentMs: 1, forgetMs, untilMs: forgetMs, id: 'id', text: 'text' })
    expect(
      await script.put('epoch', { subject: 's', id: 'id', expected: undefined, untilMs: forgetMs, text: '{}', delayMs: 0 }),
    ).toMatchObject({ kind: 'put' })
    for (const map of ['overrides', 'resets'] as const) await script.add('epoch', map, [['t', entry]])
    const news = await script.poll({
      epoch: 'epoch',
      latestMs: 0,
      digestKey: '0 0011223344556677',
      changes: { overrides: '0', resets: '0' },
    })
    expect([news.overrides.size, news.resets.entries]).toEqual([2, [['t', entry]]])
    expect(errors).toEqual([])
  })
})

async function linkOfUser(redis: RedisServer) {
  await redis.command('ACL', ...documentedUser())
  // The probes of this link count a key of their own, which decisions do not.
  await redis.command('ACL', 'SETUSER', 'edge', '+incr')
  return usableLink(`redis://edge:PASSWORD@127.0.0.1:${redis.port}`)
}

/** What the documentation has behind `ACL`. */
function documentedUser(): string[] {
  const docs = readFileSync(new URL('../../../docs/fleets.md', import.meta.url), 'utf8')
  return /^ACL (SETUSER edge .*)$/m.exec(docs)![1]!.split(' ')
}
