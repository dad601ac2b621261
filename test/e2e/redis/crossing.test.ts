import { expect, test } from 'vitest'
import { calendarOf } from '../../../src/limiter/calendar.ts'
import { Charges } from '../../../src/store/charges.ts'
import { FleetStore } from '../../../src/store/redis/fleet-store.ts'
import { counterScripts } from '../../../src/store/redis/scripts.ts'
import { SharedCounters } from '../../../src/store/redis/shared-counters.ts'
import { newEmbeddedStore } from '../../../src/store/table/embedded-store.ts'
import { systemClock } from '../../../src/time/clock.ts'
import { usableLink } from '../../support/redis/recorded-link.ts'
import { type RedisServer, redisOfSuite } from '../../support/redis/redis-server.ts'
import { describeWithRedis } from '../../support/redis/redis-suite.ts'
import { gateTo, type TcpGate } from '../../support/redis/tcp-gate.ts'
import { bucketLimit, checkRows, dayLimit, takeRows } from '../../support/store/charging.ts'

const SIZE = 100
/** So long a window that hardly ever a test sees one end. */
const LIMITS = { bucket: bucketLimit(1e-9, SIZE), window: { ...dayLimit(SIZE), calendar: calendarOf('1y', 'UTC') } }
const NOW_MS = 1000

describeWithRedis('a settlement of one worker that crosses a take of another', () => {
  const shared = redisOfSuite()

  test.for(['bucket', 'window'] as const)(
    'gives back to the %s what it gives back, though the take left before it and came after',
    async (kind) => {
      const { settling, taking, left } = await twoWorkers(shared(), kind)
      await settling.take(60)
      taking.gate.hold('requests')
      const taken = taking.take(10)
      await settling.settle(50)
      taking.gate.release()
      await taken
      expect(await left()).toBe(SIZE - 60 + 50 - 10)
    },
  )

  test.for(['bucket', 'window'] as const)(
    'charges the %s once for what was used beyond the reservation, though the take knew of it before',
    async (kind) => {
      const { settling, taking, left } = await twoWorkers(shared(), kind)
      await settling.take(10)
      settling.gate.hold('requests')
      const settled = settling.settle(-12)
      await taking.take(10)
      settling.gate.release()
      await settled
      expect(await left()).toBe(SIZE - 10 - 12 - 10)
    },
  )
})

interface Worker {
  readonly gate: TcpGate
  take(cost: number): Promise<unknown>
  /** Gives back, or below zero charges besides. */
  settle(tokens: number): Promise<void>
}

/** Of one instance, each with a connection of its own, and both on the same own counters. */
async function twoWorkers(
  redis: RedisServer,
  kind: keyof typeof LIMITS,
): Promise<{ settling: Worker; taking: Worker; left(): Promise<number> }> {
  const local = newEmbeddedStore(256 * 1024)
  const wallMs = Date.now()
  const newStore = async (gate: TcpGate): Promise<FleetStore> => {
    const { link } = await usableLink(`redis://${gate.address}`)
    const shared = new SharedCounters(link, counterScripts(), { prefix: 'edge:', maxSlackMs: 0 }, { onUnknownOutcome() {} })
    return new FleetStore({
      shared,
      local,
      failureMode: 'closed',
      clock: { ...systemClock, nowMs: () => NOW_MS },
      listener: { onDecided() {} },
    })
  }
  const open = (store: FleetStore) => store.open({ identity: ['r'], limit: LIMITS[kind], sinceMs: 0 })
  const newWorker = async (): Promise<Worker & { readonly store: FleetStore }> => {
    const gate = await gateTo(redis.port)
    const store = await newStore(gate)
    return {
      gate,
      store,
      take: (cost) => takeRows(store, [{ counter: open(store), cost }], NOW_MS, wallMs),
      async settle(tokens) {
        const charges = new Charges()
        charges.add(open(store), tokens)
        await store.settleAll(charges, { wallMs, momentMs: wallMs, from: 'shared' }, NOW_MS, wallMs)
      },
    }
  }
  const [settling, taking] = [await newWorker(), await newWorker()]
  const left = async (): Promise<number> => {
    const { levels } = await checkRows(taking.store, [{ counter: open(taking.store), cost: 1 }], NOW_MS, wallMs)
    return Math.round(levels[0]!)
  }
  return { settling, taking, left }
}
