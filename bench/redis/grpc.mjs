import { setPriority } from 'node:os'
import { cpuTimes, usedUs } from '../decision/cpu-time.mjs'
import { newGrpcLoad } from '../doors/grpc-load.mjs'
import { findRatelimit, startRatelimit } from '../doors/ratelimit.mjs'
import { expect } from '../support/http-client.mjs'
import { ask, OTHERS, start, stop } from '../support/processes.mjs'
import { median, quartiles } from '../support/statistics.mjs'
import { MAX_STEAL_SHARE, stealDuring } from '../support/steal.mjs'
import { startOnRedis } from './contestants.mjs'

const HIGH_LIMIT = 1_000_000_000
const SHAPES = [
  { title: '2 connections of 100 streams', connections: 2, streams: 100 },
  { title: '32 connections of one stream', connections: 32, streams: 1 },
]
/** A rate that envoyproxy/ratelimit can hold on one core. */
export const CALLS_PER_SECOND = 2000
/** With fewer rounds that other guests of the machine did not disturb, all of them are reported, and marked. */
const MIN_CALM_ROUNDS = 3

/** ShouldRateLimit in exact mode beside envoyproxy/ratelimit: what a call costs, and its delays at a fixed rate. */
export async function measureGrpc(redisServer, { grpcRounds, roundSeconds, latencyRounds, grpcLatencySeconds }) {
  const contestants = await startBoth(redisServer)
  const load = await newGrpcLoad()
  const costs = []
  for (const shape of SHAPES) costs.push(await measureCosts(contestants, load, shape, { grpcRounds, roundSeconds }))
  return { costs, delays: await measureDelays(contestants, { rounds: latencyRounds, seconds: grpcLatencySeconds }) }
}

async function startBoth(redisServer) {
  const { server } = await startOnRedis(redisServer, 'exact', { hasGrpc: true })
  const edge = { id: 'edge', name: 'edge, exact', server, port: server.grpcPort }
  const file = findRatelimit()
  if (file === undefined) {
    console.error('\n*** envoyproxy/ratelimit IS NOT INSTALLED: its rows are missing. See scripts/test-parts/ratelimit.sh ***\n')
    return [edge]
  }
  const peer = await startRatelimit(file, HIGH_LIMIT, { isRedisOverTcp: true })
  return [edge, { id: 'ratelimit', name: 'envoyproxy/ratelimit', server: peer, port: peer.port }]
}

async function measureCosts(contestants, load, { title, connections, streams }, { grpcRounds, roundSeconds }) {
  const samples = new Map(contestants.map(({ id }) => [id, []]))
  for (let round = -1; round < grpcRounds; round++) {
    for (const { id, name, server, port } of contestants) {
      const before = cpuTimes(server.pid)
      const { requests, rejected, failed } = await load.run({
        port,
        method: 'shouldRateLimit',
        seconds: roundSeconds,
        connections,
        streams,
      })
      expect(failed + rejected === 0, `${name}: of ${requests} calls ${failed} failed and ${rejected} were rejected`)
      // The first one warms up. Threads of Go may begin while it runs, so its end is not looked at.
      if (round >= 0) samples.get(id).push(usedUs(before, cpuTimes(server.pid)) / requests)
    }
  }
  return { title, rows: contestants.map(({ id, name }) => ({ id, name, cpuUs: median(samples.get(id)) })) }
}

async function measureDelays(contestants, { rounds, seconds }) {
  const generator = await start(OTHERS, new URL('./grpc-fixed-rate.mjs', import.meta.url))
  // Redis is on the generator's core, and has the right of way.
  setPriority(generator.pid, 19)
  const samples = new Map(contestants.map(({ id }) => [id, []]))
  for (let round = -1; round < rounds; round++) {
    for (const { id, port } of contestants) {
      const { result, steal } = await stealDuring(() => ask(generator, 'run', { port, perSecond: CALLS_PER_SECOND, seconds }))
      if (round >= 0) samples.get(id).push({ ...result, steal })
    }
  }
  await stop(generator)
  const rows = contestants.map(({ id, name }) => ({ id, name, ...summarise(samples.get(id)), rounds: samples.get(id) }))
  return { rows, ratio: ratioOf(samples.get('edge'), samples.get('ratelimit')) }
}

function summarise(samples) {
  const calm = samples.filter(({ steal }) => steal <= MAX_STEAL_SHARE)
  const isCalm = calm.length >= MIN_CALM_ROUNDS
  const of = (figure) => median((isCalm ? calm : samples).map((sample) => sample[figure]))
  return { p50Us: of('p50Us'), p99Us: of('p99Us'), p999Us: of('p999Us'), steal: of('steal'), calmRounds: calm.length, isCalm }
}

/** The ratio of p99, round by round, where both were calm; undefined if they never were, or there is no peer. */
function ratioOf(samples, others) {
  if (others === undefined) return undefined
  const pairs = samples.map((sample, round) => [sample, others[round]])
  const calm = pairs.filter(([one, other]) => one.steal <= MAX_STEAL_SHARE && other.steal <= MAX_STEAL_SHARE)
  const used = calm.length >= MIN_CALM_ROUNDS ? calm : pairs
  return { ...quartiles(used.map(([one, other]) => one.p99Us / other.p99Us)), isCalm: used === calm }
}
