import { expect, test } from 'vitest'
import { bucketLimit } from '../../../../test/support/store/charging.ts'
import { ChargeResults, Charges } from '../../charges.ts'
import { newEmbeddedStore } from '../../table/embedded-store.ts'
import { FleetStore } from '../fleet-store.ts'
import type { Script, ScriptArgument } from '../link/call.ts'
import { counterScripts } from '../scripts.ts'
import { SharedCounters } from '../shared-counters.ts'
import { Leases } from './leases.ts'

const SIZE = 1000

test('a decision whose answer comes in one turn with that of a renewal before it counts what was leased by then', async () => {
  let nowMs = 0
  let level = SIZE
  let isHeld = false
  const held: (() => void)[] = []
  // Redis, on one connection: it does calls in their order, and their answers may come all at once.
  const run = (_: Script, _keys: readonly string[], [, numbers]: readonly ScriptArgument[]): Promise<unknown> => {
    const [cost, more] = [numbers![2] as number, numbers![9] as number]
    const leased = Math.min(more, Math.floor((level - cost) / 2))
    level -= cost + leased
    const reply = [1, nowMs, level, leased, 0, 0, 0]
    return isHeld ? new Promise((resolve) => held.push(() => resolve(reply))) : Promise.resolve(reply)
  }
  const clock = { nowMs: () => nowMs, wallMs: () => nowMs }
  const local = newEmbeddedStore(64 * 1024)
  const link = { groupOf: () => 0, isUsable: () => true, run }
  const shared = new SharedCounters(link, counterScripts(), { prefix: 'edge:', maxSlackMs: 0 }, { onUnknownOutcome() {} })
  const leases = new Leases({ shared, local, leaseMs: 1000, clock, listener: { onHeld() {}, onTokens() {} } })
  const store = new FleetStore({ shared, local, leases, failureMode: 'closed', clock, listener: { onDecided() {} } })
  const counter = store.open({ identity: ['rule'], limit: bucketLimit(1e-9, SIZE), sinceMs: 0, isLeasable: true })
  let used = 0
  const take = (results: ChargeResults) => {
    nowMs++
    used++
    const charges = new Charges()
    charges.add(counter, 1)
    return store.takeAll(charges, results, nowMs, nowMs)
  }

  for (let i = 0; i < 20; i++) await take(new ChargeResults())
  isHeld = true
  const results = new ChargeResults()
  let outcome = take(results)
  // The renewal leaves while leases still cover decisions; then one has to ask itself.
  while (typeof outcome === 'boolean') outcome = take(results)
  expect(held).toHaveLength(2)
  for (const answer of held) answer()
  expect(await outcome).toBe(true)
  expect(Math.round(results.levels[0]!)).toBe(SIZE - used)
})
