import { join } from 'node:path'
import { FleetLimit } from '../support/fleet/fleet-limit.ts'
import { RandomLoad } from '../support/fleet/random-load.ts'
import { DecisionClient } from './decision-client.ts'
import { DecisionCounts } from './decision-counts.ts'
import { DecisionLoad } from './decision-load.ts'
import { EdgeProcess } from './edge-process.ts'
import { HostileClients } from './hostile-clients.ts'
import { quiet } from './quiet.ts'
import { Reloads } from './reloads.ts'
import { type Round, soak } from './scenario.ts'
import { SettleLoad, SettlingGateway, settledPolicies } from './settle-load.ts'
import { Team, teamPolicies } from './teams.ts'

const TEAMS = 12
const LANES = 12
const GATEWAYS = 4
/** Sums of fractions, nothing more. */
const ROUNDING = 1e-6

soak('decisions-embedded', async (bench) => {
  const limits = [new FleetLimit(3, 2), new FleetLimit(40, 20), new FleetLimit(100, 300)]
  const reloads = await Reloads.at(join(bench.directory, 'bundle.json'), (version) => [
    ...teamPolicies(version),
    ...settledPolicies(),
    ...limits.map((limit) => limit.policy),
  ])
  const env = { EDGE_CONFIG_FILE: reloads.path, EDGE_STATE_FILE: join(bench.directory, 'state') }
  const edge = await EdgeProcess.start(env, bench)
  reloads.watchedBy(edge)
  const veterans: Team[] = []
  const done = { decisions: 0, exact: 0, bounded: 0, settlements: 0, hostile: 0, deaths: 0, restarts: 0, crashes: 0 }

  return {
    edges: [edge],
    troubles: [],
    endings: ['worker death', 'restart', 'crash'],
    summary: () =>
      `${done.decisions} decisions, ${done.exact} teams checked exactly and ${done.bounded} by bounds, ${done.settlements} settlements, ${done.hostile} hostile connections, ${reloads.applied} bundles applied and ${reloads.refused} refused, ` +
      `${done.deaths} worker deaths, ${done.restarts} restarts, ${done.crashes} crashes`,
    async round(round, trouble) {
      const { random, findings } = round
      const teams = Array.from({ length: TEAMS }, (_, i) => new Team(`${round.number}-${i}`, i % 4 === 3))
      const counts = await DecisionCounts.from(edge)
      for (const limit of limits) limit.questions.length = 0
      const gateways = Array.from({ length: GATEWAYS }, (_, i) => new SettlingGateway(`${round.number}-${i}`))
      const loads = [
        new DecisionLoad([edge.port], teams, random, LANES),
        new RandomLoad(edge.port, limits, random),
        new SettleLoad(edge.port, gateways, findings, random),
      ]
      const hostile = new HostileClients(
        [edge.port],
        random,
        3,
        teams.flatMap((team) => team.refusedHeads),
      )
      await during(round, trouble)
      for (const load of [...loads, hostile]) await load.stop()
      await quiet(edge)

      const client = new DecisionClient(edge.port)
      // Who had nothing left has nothing now, whatever happened: what was saved outlives even a crash.
      const old = Array.from({ length: Math.min(veterans.length, 5) }, () => random.oneOf(veterans))
      counts.remember(old)
      for (const team of old) findings.equal(`admitted of team ${team.name}, which had nothing left`, await team.drain([client]), 0)
      for (const team of teams) await team.drain([client])
      client.close()
      const times = trouble === 'crash' ? 2 : 1
      for (const team of teams) done[team.check(findings, { times, timesEach: times })]++
      for (const gateway of gateways) await gateway.check(edge.port, findings, trouble === 'crash')
      for (const limit of limits) findings.atMost(`burst of ${limit.name}`, limit.worstBurst, times * limit.burst + ROUNDING)
      for (const { seen } of teams) done.decisions += seen.admitted + seen.rejected
      for (const { questions } of limits) done.decisions += questions.length
      done.hostile += hostile.count
      for (const { settlements } of gateways) done.settlements += settlements
      await counts.check(findings, teams, limits)
      const saves = (await edge.metrics()).value('edge_state_saves_total{result="saved"}')
      for (const team of teams) team.drainedAtSave = saves
      veterans.push(...teams)
    },
  }

  async function during(round: Round, trouble: string): Promise<void> {
    const { random, findings, loadMs, rest } = round
    const endMs = performance.now() + loadMs
    const isOver = (): boolean => performance.now() >= endMs
    if (trouble === 'restart' || trouble === 'crash') {
      await rest(random.next() * loadMs)
      await (trouble === 'restart' ? restart() : crash())
      await rest(endMs - performance.now())
      return
    }
    const reloading = reloads.run(round, isOver)
    if (trouble === 'worker death') {
      await rest((random.next() * loadMs) / 2)
      await edge.endWorker(random.below(2), random.oneOf(['exit', 'throw']))
      done.deaths++
    }
    await rest(endMs - performance.now())
    await reloading

    async function restart(): Promise<void> {
      await edge.stop(findings)
      await edge.start()
      for (const team of veterans) team.drainedAtSave = undefined
      done.restarts++
    }

    async function crash(): Promise<void> {
      const saves = (await edge.metrics()).value('edge_state_saves_total{result="saved"}')
      await edge.kill(findings)
      await edge.start()
      // A save that was counted later may have begun earlier: only the second one is sure to have seen them.
      const forgotten = veterans.filter(({ drainedAtSave }) => drainedAtSave !== undefined && saves < drainedAtSave + 2)
      for (const team of forgotten) veterans.splice(veterans.indexOf(team), 1)
      for (const team of veterans) team.drainedAtSave = undefined
      done.crashes++
    }
  }
})
