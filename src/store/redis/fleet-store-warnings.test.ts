import { expect, test } from 'vitest'
import { takeRows } from '../../../test/support/store/charging.ts'
import { calendarOf } from '../../limiter/calendar.ts'
import { WINDOW, type WindowLimit } from '../../limiter/limit.ts'
import { systemClock } from '../../time/clock.ts'
import { Charges } from '../charges.ts'
import { newEmbeddedStore } from '../table/embedded-store.ts'
import { FleetStore } from './fleet-store.ts'
import { counterScripts } from './scripts.ts'
import { SharedCounters } from './shared-counters.ts'

const LIMIT: WindowLimit = { kind: WINDOW, tokens: 100, calendar: calendarOf('1d', 'UTC'), warnings: [{ percent: 80, tokens: 80 }] }

/** A fleet's store whose Redis replies with these numbers, one after the other; without one it is unreachable. */
function storeOn(replies: (readonly number[])[]) {
  const link = { groupOf: () => 0, isUsable: () => replies.length > 0, run: async () => replies.shift()! }
  const shared = new SharedCounters(link, counterScripts(), { prefix: 'edge:', maxSlackMs: 0 }, { onUnknownOutcome() {} })
  const local = newEmbeddedStore(64 * 1024)
  const store = new FleetStore({ shared, local, failureMode: 'local', clock: systemClock, listener: { onDecided() {} } })
  return { store, shared, counter: store.open({ identity: ['budget'], limit: LIMIT, sinceMs: 0, isSettled: true }) }
}

test("while Redis is unreachable, an instance's own count warns", async () => {
  const { store, counter } = storeOn([])
  expect((await takeRows(store, [{ counter, cost: 79 }], 0)).warnings).toBeUndefined()
  expect((await takeRows(store, [{ counter, cost: 1 }], 0)).warnings).toEqual([80])
})

test('an instance that has warned does not warn again when Redis is unreachable', async () => {
  const { store, counter } = storeOn([[1, 0, 20, 0, 0, 80000, 0]])
  expect((await takeRows(store, [{ counter, cost: 80 }], 0)).warnings).toEqual([80])
  expect((await takeRows(store, [{ counter, cost: 1 }], 0)).warnings).toBeUndefined()
})

test('a settlement that is sent later warns then', async () => {
  const replies: (readonly number[])[] = []
  const { store, shared, counter } = storeOn(replies)
  const warned: number[] = []
  const taken = { wallMs: 0, momentMs: 0, from: 'shared' } as const
  const charges = new Charges()
  charges.add(counter, -80)
  await store.settleAll(charges, taken, 0, 0, (_row, percent) => warned.push(percent))
  expect(warned).toEqual([])
  replies.push([1, 0, 20, 0, 0, 80000, 0])
  await shared.sendUnsent()
  expect(warned).toEqual([80])
})
