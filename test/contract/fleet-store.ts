import { beforeAll } from 'vitest'
import type { CounterStore } from '../../src/store/counter-store.ts'
import type { RedisLink } from '../../src/store/redis/link/redis-link.ts'
import { ClockedFleetStore } from '../support/redis/clocked-link.ts'
import { usableLink } from '../support/redis/recorded-link.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import type { Owner } from '../support/service/running.ts'
import { thisSuite } from '../support/service/suite-owner.ts'
import { settlingByLocator } from '../support/store/settling-by-locator.ts'
import { describeCounterStore } from './counter-store.ts'
import { describeGrowth } from './growth.ts'
import { describeHolds, describeSharedHolds } from './holds.ts'
import { describeLimitChange } from './limit-change.ts'
import { describeOverdraft } from './overdraft.ts'
import { describeOverride } from './override.ts'
import { describeReset, describeSharedReset } from './reset.ts'
import { describeSettlement } from './settlement.ts'
import { describeSharedWarnings, describeWarnings } from './warnings.ts'

/** The contract but for resets and settlements by locator, which are slow tests, on the Redis that such an address names. */
export function describeFleet(servers: string, urlOf: (owner: Owner) => Promise<string>): void {
  describeWithRedis(`FleetStore on ${servers}`, () => {
    const { newStore, newStores } = storesOfSuite(urlOf)
    describeCounterStore('one instance', newStore)
    describeLimitChange('one instance', newStore)
    describeGrowth('one instance', newStore)
    describeHolds('one instance', newStore)
    describeOverdraft('one instance', newStore)
    describeOverride('one instance', newStore, true)
    describeSettlement('one instance', newStore)
    describeWarnings('one instance', newStore)
    describeSharedHolds('two instances', newStores)
    describeSharedWarnings('two instances', newStores)
  })
}

/** Resets of every kind of limit. `npm test` has them in src/store/redis/fleet-resets.test.ts. */
export function describeFleetResets(servers: string, urlOf: (owner: Owner) => Promise<string>): void {
  describeWithRedis(`FleetStore on ${servers}`, () => {
    const { newStore, newStores } = storesOfSuite(urlOf)
    describeReset('one instance', newStore)
    describeSharedReset('two instances', newStores)
  })
}

/** What is settled by the place of a counter rather than by the caller's name. */
export function describeFleetByLocator(servers: string, urlOf: (owner: Owner) => Promise<string>): void {
  describeWithRedis(`FleetStore on ${servers}`, () => {
    const { newStore } = storesOfSuite(urlOf)
    const newStoreByLocator = (): CounterStore => settlingByLocator(newStore())
    describeHolds('by locator', newStoreByLocator)
    describeSettlement('by locator', newStoreByLocator)
  })
}

interface NewStores {
  newStore(): CounterStore
  /** Two that share all. */
  newStores(): [CounterStore, CounterStore]
}

/** Each call makes stores that share nothing with those before them. */
function storesOfSuite(urlOf: (owner: Owner) => Promise<string>): NewStores {
  const suite = thisSuite()
  let link: RedisLink
  let prefixes = 0
  const newPrefix = (): string => `edge:${prefixes++}:`

  beforeAll(async () => {
    link = (await usableLink(await urlOf(suite), undefined, suite)).link
    await link.firstUse(10_000)
  })

  return {
    newStore: () => new ClockedFleetStore(link, newPrefix()),
    newStores: () => {
      const prefix = newPrefix()
      return [new ClockedFleetStore(link, prefix), new ClockedFleetStore(link, prefix)]
    },
  }
}
