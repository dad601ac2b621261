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

/** The contract but for resets and settlements by place, which are slow tests, on the Redis that such an address names. */
export function describeFleet(servers: string, urlOf: (owner: Owner) => Promise<string>): void {
  const name = `FleetStore on ${servers}`
  describeWithRedis(name, () => {
    const newStores = storesOfSuite(urlOf)
    const newStore = (): CounterStore => newStores()[0]
    describeCounterStore(name, newStore)
    describeLimitChange(name, newStore)
    describeHolds(name, newStore)
    describeOverdraft(name, newStore)
    describeOverride(name, newStore, true)
    describeSettlement(name, newStore)
    describeWarnings(name, newStore)
    describeSharedHolds(name, newStores)
    describeSharedWarnings(name, newStores)
  })
}

/** Resets of every kind of limit. `npm test` has them in src/store/redis/resets.test.ts. */
export function describeFleetResets(servers: string, urlOf: (owner: Owner) => Promise<string>): void {
  const name = `FleetStore on ${servers}`
  describeWithRedis(name, () => {
    const newStores = storesOfSuite(urlOf)
    describeReset(name, () => newStores()[0])
    describeSharedReset(name, newStores)
  })
}

/** What is settled by the place of a counter rather than by the caller's name. */
export function describeFleetByPlace(servers: string, urlOf: (owner: Owner) => Promise<string>): void {
  const name = `FleetStore on ${servers}`
  describeWithRedis(name, () => {
    const newStores = storesOfSuite(urlOf)
    const newStore = (): CounterStore => settlingByPlace(newStores()[0])
    describeHolds(`${name}, by place`, newStore)
    describeSettlement(`${name}, by place`, newStore)
  })
}

/** Two stores that share all, and nothing with those before them. */
function storesOfSuite(urlOf: (owner: Owner) => Promise<string>): () => [CounterStore, CounterStore] {
  const suite = thisSuite()
  let link: RedisLink
  let stores = 0

  beforeAll(async () => {
    link = (await usableLink(await urlOf(suite), undefined, suite)).link
    await link.firstUse(10_000)
  })

  return () => {
    const prefix = `edge:${stores++}:`
    return [new ClockedFleetStore(link, prefix), new ClockedFleetStore(link, prefix)]
  }
}
