import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { worstWindow } from '../support/fleet/admissions.ts'
import { FleetLimit } from '../support/fleet/fleet-limit.ts'
import { RandomLoad } from '../support/fleet/random-load.ts'
import { runningRedis } from '../support/redis/redis-server.ts'
import { describeWithRedis } from '../support/redis/redis-suite.ts'
import { gateTo } from '../support/redis/tcp-gate.ts'
import { DecisionClient } from './decision-client.ts'
import { DecisionCounts } from './decision-counts.ts'
import { DecisionLoad } from './decision-load.ts'
import { EdgeProcess } from './edge-process.ts'
import { HostileClients } from './hostile-clients.ts'
import { quiet } from './quiet.ts'
import { RedisDoubts } from './redis-doubts.ts'
import { REDIS_TIMEOUT_MS, REDIS_TROUBLES, troubleRedis } from './redis-trouble.ts'
import { Reloads } from './reloads.ts'
import { type Bench, type Round, type Scenario, soak } from './scenario.ts'
import { Team, teamPolicies } from './teams.ts'

const INSTANCES = 2
const TEAMS = 10
const LEASE_MS = 200
/** Sums of fractions, nothing more. */
const ROUNDING = 1e-6

/** Two instances that share their counters in a Redis to which all kinds of things happen. */
export function soakRedisDecisions(name: string, mode: 'exact' | 'leased'): void {
  describeWithRedis(name, () => soak(name, (bench) => begin(bench, mode)))
}

async function begin(bench: Bench, mode: 'exact' | 'leased'): Promise<Scenario> {
  const limits = [new FleetLimit(3, 2), new FleetLimit(40, 20), new FleetLimit(100, 200)]
  const lifeMs = mode === 'leased' ? LEASE_MS : 0
  const redis = await runningRedis({}, bench)
  const gate = await gateTo(redis.port, bench)
  const reloads = await Reloads.at(join(bench.directory, 'bundle.json'), (version) => [
    ...teamPolicies(version),
    ...limits.map((limit) => limit.policy),
  ])
  const env = {
    EDGE_CONFIG_FILE: reloads.path,
    EDGE_REDIS_URL: `redis://${gate.address}`,
    EDGE_REDIS_MODE: mode,
    EDGE_REDIS_LEASE_MS: String(LEASE_MS),
    EDGE_REDIS_TIMEOUT_MS: String(REDIS_TIMEOUT_MS),
  }
  const edges: EdgeProcess[] = []
  for (let i = 0; i < INSTANCES; i++) {
    edges.push(await EdgeProcess.start({ ...env, EDGE_STATE_FILE: join(bench.directory, `state-${i}`) }, bench))
  }
  reloads.watchedBy(...edges)
  const ports = edges.map(({ port }) => port)
  const done = { decisions: 0, exact: 0, bounded: 0, exactRounds: 0, faults: 0, deaths: 0, restarts: 0, crashes: 0 }

  return {
    edges,
    troubles: REDIS_TROUBLES,
    endings: ['worker death', 'restart', 'crash'],
    summary: () =>
      `${done.decisions} decisions, ${done.exact} teams checked exactly and ${done.bounded} by bounds, ${done.faults} faults of Redis, ${done.exactRounds} rounds without any, ${reloads.applied} bundles ` +
      `applied and ${reloads.refused} refused, ${done.deaths} worker deaths, ${done.restarts} restarts, ${done.crashes} crashes`,
    async round(round, trouble) {
      const { random, findings, number } = round
      const teams = Array.from({ length: TEAMS }, (_, i) => new Team(`${number}-${i}`, i % 5 === 4))
      const counts = await DecisionCounts.from(...edges)
      const doubts = await RedisDoubts.from(edges)
      for (const limit of limits) limit.questions.length = 0
      const loads = [new DecisionLoad(ports, teams, random, 12), ...ports.map((port) => new RandomLoad(port, limits, random))]
      const hostile = new HostileClients(
        ports,
        random,
        2,
        teams.flatMap((team) => team.refusedHeads),
      )
      await during(round, trouble)
      for (const load of [...loads, hostile]) await load.stop()
      for (const edge of edges) await quiet(edge)

      await Promise.all(teams.map(drain))
      const { hadFault, lostTokens } = await doubts.since(trouble)
      const times = hadFault ? INSTANCES : 1
      for (const team of teams) done[team.check(findings, { times, lost: lostTokens })]++
      for (const { name, burst, perSecond, admissions } of limits) {
        const worst = worstWindow(admissions, (times * perSecond) / 1000)
        const slackMs = lifeMs + (hadFault ? REDIS_TIMEOUT_MS : 0)
        findings.atMost(`burst of ${name}`, worst.burst, times * (burst + (perSecond * slackMs) / 1000) + ROUNDING)
      }
      await counts.check(findings, teams, limits)
      for (const { seen } of teams) done.decisions += seen.admitted + seen.rejected
      for (const { questions } of limits) done.decisions += questions.length
      if (hadFault) done.faults++
      else done.exactRounds++
    },
  }

  async function drain(team: Team): Promise<void> {
    const clients = ports.map((port) => new DecisionClient(port))
    let idle = 0
    while (idle < (mode === 'exact' ? 1 : 3)) {
      idle = (await team.drain(clients)) === 0 ? idle + 1 : 0
      // Who holds a lease remembers a refusal for its life at most, and gives back the last of what it holds when the lease ends: later, where the machine is busy.
      if (mode === 'leased') await sleep(3 * LEASE_MS)
    }
    for (const client of clients) client.close()
  }

  async function during(round: Round, trouble: string): Promise<void> {
    const { random, findings, loadMs, rest } = round
    const endMs = performance.now() + loadMs
    const edge = random.oneOf(edges)
    const isEnding = trouble === 'restart' || trouble === 'crash'
    const reloading = isEnding ? undefined : reloads.run(round, () => performance.now() >= endMs)
    await rest((random.next() * loadMs) / 2)
    if (trouble === 'worker death') {
      await edge.endWorker(random.below(2), random.oneOf(['exit', 'throw']))
      done.deaths++
    } else if (isEnding) {
      await (trouble === 'restart' ? edge.stop(findings) : edge.kill(findings))
      await edge.start()
      done[trouble === 'restart' ? 'restarts' : 'crashes']++
    } else if (trouble !== 'calm') await troubleRedis(trouble, redis, gate, round)
    await rest(endMs - performance.now())
    await reloading
  }
}
