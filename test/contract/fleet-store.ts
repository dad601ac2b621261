import { beforeAll } from 'vitest'
import type { CounterStore } from '../../src/store/counter-store.ts'
import type { RedisLink } from '../../src/store/redis/link/redis-link.ts'
import { ClockedFleetStore } from '../support/redis/clocked-link.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import type { Owner } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { settlingByPlace } from '../support/store/settling-by-place.ts'
import { describeCounterStore } from './counter-store.ts'
import { describeHolds, describeSharedHolds } from './holds.ts'
import { describeLimitChange } from './limit-change.ts'
import { describeOverdraft } from './overdraft.ts'
import { describeOverride } from './override.ts'
import { describeReset, describeSharedReset } from './reset.ts'
import { describeSettlement } from './settlement.ts'
import { describeSharedWarnings, describeWarnings } from './warnings.ts'

/** The whole contract, on the Redis that such an address names. */
export function describeFleet(servers: string, urlOf: (owner: Owner) => Promise<string>): void {
  const name = `FleetStore on ${servers}`
  describeWithRedis(name, () => {
    const suite = thisSuite()
    let link: RedisLink
    let stores = 0

    beforeAll(async () => {
      link = (await usableLink(await urlOf(suite), undefined, suite)).link
      await link.firstUse(10_000)
    })

    // A prefix of its own is an empty store.
    const newStore = (): CounterStore => new ClockedFleetStore(link, `edge:${stores++}:`)
    describeCounterStore(name, newStore)
    describeLimitChange(name, newStore)
    describeHolds(name, newStore)
    describeHolds(`${name}, by place`, () => settlingByPlace(newStore()))
    describeOverdraft(name, newStore)
    describeOverride(name, newStore, true)
    describeSettlement(name, newStore)
    describeSettlement(`${name}, by place`, () => settlingByPlace(newStore()))
    describeReset(name, newStore)
    describeWarnings(name, newStore)
    const newStores = (): [CounterStore, CounterStore] => {
      const prefix = `edge:${stores++}:`
      return [new ClockedFleetStore(link, prefix), new ClockedFleetStore(link, prefix)]
    }
    describeSharedReset(name, newStores)
    describeSharedHolds(name, newStores)
    describeSharedWarnings(name, newStores)
  })
}
