import { join } from 'node:path'
import type { Environment } from '../support/service/running.ts'
import { BudgetCaller, budgetPolicies } from './budget-caller.ts'
import { EdgeProcess } from './edge-process.ts'
import { HeldCaller, HeldLoad, heldPolicies } from './held-requests.ts'
import { HostileClients } from './hostile-clients.ts'
import { HostileRequests } from './hostile-requests.ts'
import { LlmCounts } from './llm-counts.ts'
import { CROWD_LANES, LlmLoad } from './llm-load.ts'
import { PLAIN_PATHS, PlainCaller, PlainLoad, plainPolicies } from './plain-load.ts'
import { quiet } from './quiet.ts'
import { Reloads } from './reloads.ts'
import type { Bench, Round, Scenario } from './scenario.ts'
import { SoakBackend } from './soak-backend.ts'
import { StreamLoad } from './stream-load.ts'

export interface ProxyTroubles {
  readonly env: Environment
  /** Beside worker deaths and restarts. */
  readonly names: readonly string[]
  make(trouble: string, round: Round): Promise<void>
}

/** A reverse proxy with token budgets before an LLM of many moods. */
export async function proxyScenario(bench: Bench, troubles: ProxyTroubles): Promise<Scenario> {
  const backend = await SoakBackend.start(bench)
  const reloads = await Reloads.at(join(bench.directory, 'bundle.json'), (version) => [
    ...budgetPolicies(version),
    ...plainPolicies(),
    ...heldPolicies(),
  ])
  const env = {
    EDGE_CONFIG_FILE: reloads.path,
    EDGE_STATE_FILE: join(bench.directory, 'state'),
    EDGE_MODE: 'reverse_proxy',
    EDGE_BACKEND_URL: backend.url,
    EDGE_SHUTDOWN_MS: '1000',
    ...troubles.env,
  }
  const edge = await EdgeProcess.start(env, bench)
  reloads.watchedBy(edge)
  const done = { requests: 0, left: 0, exact: 0, bounded: 0, tokens: 0, tunnels: 0, streams: 0, deaths: 0, restarts: 0, troubles: 0 }

  return {
    edges: [edge],
    troubles: troubles.names,
    endings: ['worker death', 'restart'],
    summary: () =>
      `${done.requests} LLM requests, ${done.left} left by their clients, ${done.tokens} tokens spent, ${done.exact} budgets checked exactly ` +
      `and ${done.bounded} by bounds, ${done.tunnels} tunnels, ${done.streams} responses and uploads compared, ${reloads.applied} bundles applied and ${reloads.refused} refused, ` +
      `${done.deaths} worker deaths, ${done.restarts} restarts${troubles.names.length > 0 ? `, ${done.troubles} faults of Redis` : ''}`,
    async round(round, trouble) {
      const { random, findings, number } = round
      const named = (kind: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${number}-${kind}-${i}`)
      const serial = named('serial', 8).map((name) => new BudgetCaller(name))
      const crowd = named('crowd', 4).map((name) => new BudgetCaller(name))
      const leavers = named('leaver', 4).map((name) => new BudgetCaller(name))
      const plain = PLAIN_PATHS.flatMap((path) => named('plain', 2).map((name) => new PlainCaller(name, path)))
      const plainLeavers = PLAIN_PATHS.map((path) => new PlainCaller(`${number}-plain-leaver`, path))
      const held = named('held', 4).map((name, i) => new HeldCaller(name, i % 2 === 1))
      const mayBeLost = trouble === 'worker death' || trouble === 'restart'
      const counts = await LlmCounts.from(edge)
      const llm = new LlmLoad({ port: edge.port, backend, serial, crowd, leavers, findings, mayBeLost }, random)
      const others = new PlainLoad(edge.port, plain, plainLeavers, random, 4)
      const hostile = new HostileClients([edge.port], random, 2)
      const refused = new HostileRequests(edge.port, namesOf(plain), namesOf(serial), findings, random, 2)
      const holds = new HeldLoad(edge.port, held, random, 6)
      const streams = new StreamLoad(edge.port, findings, mayBeLost, random, 4)
      await during(round, trouble)
      for (const load of [llm, others, hostile, refused, holds, streams]) await load.stop()
      await quiet(edge)

      const { hadFault, lostTokens, unpaidTokens, crossedTokens } = await counts.doubts(trouble)
      const tolerance = { lost: lostTokens + crossedTokens, unpaid: unpaidTokens }
      const crowdTolerance = { lost: lostTokens + CROWD_LANES * crossedTokens, unpaid: unpaidTokens }
      const budgets = [...serial, ...crowd, ...leavers]
      let spent = 0
      for (const caller of serial) spent += await caller.check(edge.port, findings, tolerance)
      for (const caller of [...crowd, ...leavers]) spent += await caller.check(edge.port, findings, crowdTolerance)
      const plainCallers = [...plain, ...plainLeavers]
      for (const caller of plainCallers) await caller.check(edge.port, findings, lostTokens)
      // What a worker held when it died is free again when its time is over, and what Redis was not told when it is back.
      if (!mayBeLost && !hadFault) for (const caller of held) await caller.check(edge.port, findings, backend.holds)
      await counts.check(findings, { budgets, others: [...plainCallers, ...held], spent, mayBeLost, hadFault, tolerance })
      const hasDoubts = lostTokens + unpaidTokens + crossedTokens > 0
      for (const caller of budgets) {
        const isExact = caller.isExact && !hasDoubts
        done[isExact ? 'exact' : 'bounded']++
      }
      done.requests += llm.requests
      done.left += llm.left
      done.tokens += spent
      done.tunnels += others.tunnels
      done.streams += streams.responses
    },
  }

  async function during(round: Round, trouble: string): Promise<void> {
    const { random, findings, loadMs, rest } = round
    const endMs = performance.now() + loadMs
    const reloading = trouble === 'restart' ? undefined : reloads.run(round, () => performance.now() >= endMs)
    await rest((random.next() * loadMs) / 2)
    if (trouble === 'worker death') {
      await edge.endWorker(random.below(2), random.oneOf(['exit', 'throw']))
      done.deaths++
    } else if (trouble === 'restart') {
      await edge.stop(findings)
      await edge.start()
      done.restarts++
    } else if (trouble !== 'calm') {
      await troubles.make(trouble, round)
      done.troubles++
    }
    await rest(endMs - performance.now())
    await reloading
  }
}

function namesOf(callers: readonly { readonly name: string }[]): string[] {
  return callers.map(({ name }) => name)
}
