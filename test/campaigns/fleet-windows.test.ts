import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFailed, test } from 'vitest'
import { bucketRule, bundle, policy } from '../support/bundles/bundles.ts'
import { worstWindow } from '../support/fleet/admissions.ts'
import { type Instance, runningFleet } from '../support/fleet/fleet.ts'
import { FleetLimit } from '../support/fleet/fleet-limit.ts'
import { RandomLoad } from '../support/fleet/random-load.ts'
import { TidalLoad } from '../support/fleet/tidal-load.ts'
import { Random } from '../support/random/random.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { seed } from '../support/run/property-runs.ts'
import { until } from '../support/until.ts'

const LEASE_MS = 100
/** Beside their own limits, requests to this folder count against another one: a decision takes from both or from none. */
const FOLDER = '/both'
const TOTAL = { burst: 250, perSecond: 150 }
/** Sums of fractions, nothing more. */
const ROUNDING = 1e-6

describeWithRedis('four instances on one Redis, killed and started again at random', () => {
  test.each([
    { mode: 'exact', lifeMs: 0, bound: 'burst + rate × W' },
    { mode: 'leased', lifeMs: LEASE_MS, bound: 'burst + rate × (W + lease life)' },
  ])(
    'admit at most $bound over any window W in $mode mode',
    async ({ mode, lifeMs }) => {
      const chance = seed()
      onTestFailed(() => void process.stderr.write(`\nreplay with EDGE_TEST_SEED=${chance}\n`))
      const random = new Random(chance)
      const limits = [
        new FleetLimit(3, 2, FOLDER),
        new FleetLimit(40, 5, FOLDER),
        new FleetLimit(10, 60, FOLDER),
        new FleetLimit(200, 100, FOLDER),
      ]
      const total = policy('total', { selector: { pathPrefix: FOLDER }, rules: [bucketRule('total', [], TOTAL.burst, TOTAL.perSecond)] })
      const tidal = new FleetLimit(200, 200)
      const { instances } = await runningFleet({
        size: 4,
        bundle: bundle(1, total, ...[...limits, tidal].map((limit) => limit.policy)),
        env: {
          EDGE_REDIS_URL: (await runningRedis()).url,
          EDGE_REDIS_MODE: mode,
          EDGE_REDIS_LEASE_MS: String(LEASE_MS),
          EDGE_REDIS_FAILURE_MODE: 'closed',
          // A machine that stands still is no reason to answer 503 all the time.
          EDGE_REDIS_TIMEOUT_MS: '1000',
        },
        ownEnv: { 0: { EDGE_WORKERS: '2' } },
      })

      const ports = instances.map(({ port }) => port)
      const loads = [...ports.map((port) => new RandomLoad(port, limits, random)), new TidalLoad(ports, tidal, random, 10 * LEASE_MS)]
      // All but one, each once, at a time of its own.
      const ways = [kill, stop, random.oneOf([kill, stop])]
      await Promise.all(ways.map((way, place) => replaceBy(way, instances[place]!, new Random(random.below(2 ** 32)))))
      // The slow ones are reached by any load, sooner or later.
      const isLoaded = (limit: FleetLimit): boolean => limit.count(200) >= limit.burst && limit.count(429) > 0
      await until(() => limits.slice(0, 2).every(isLoaded) && [...limits, tidal].every((limit) => limit.count(200) > 0))
      await Promise.all(loads.map((load) => load.stop()))

      for (const limit of [...limits, tidal]) {
        expect(limit.worstBurst, limit.name).toBeLessThanOrEqual(limit.burst + (limit.perSecond * lifeMs) / 1000 + ROUNDING)
      }
      const all = limits.flatMap(({ admissions }) => admissions)
      const worst = worstWindow(all, TOTAL.perSecond / 1000)
      expect(worst.burst, 'total').toBeLessThanOrEqual(TOTAL.burst + (TOTAL.perSecond * lifeMs) / 1000 + ROUNDING)
    },
    900_000,
  )
})

async function kill(instance: Instance): Promise<void> {
  await instance.kill()
}

async function stop(instance: Instance): Promise<void> {
  expect(await instance.stop()).toBe(0)
}

/** Ends the process in this way and starts a new one. */
async function replaceBy(end: (instance: Instance) => Promise<void>, instance: Instance, random: Random): Promise<void> {
  await sleep(random.between(0, 1500))
  await end(instance)
  await sleep(random.between(0, 300))
  await instance.start()
  await sleep(random.between(0, 500))
}
