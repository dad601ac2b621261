import { loadavg } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { cpuTimes, usedUs } from '../decision/cpu-time.mjs'
import { textOf } from '../decision/requests.mjs'
import { newSocketLoad } from '../decision/socket-load.mjs'
import { newGrpcLoad } from '../doors/grpc-load.mjs'
import { expect } from '../support/http-client.mjs'
import { stop } from '../support/processes.mjs'
import { percentile, quartiles } from '../support/statistics.mjs'
import { stealDuring } from '../support/steal.mjs'
import { line } from '../support/text-table.mjs'
import { HOT, startOnRedis } from './contestants.mjs'

const SLICE_SECONDS = 0.4
const WARM_UP_REQUESTS = 20_000
const MAX_WARM_UP_SLICES = 20
const HERE = fileURLToPath(new URL('../..', import.meta.url))

/** The doors at which a decision is compared, and the mode of the counters. */
const CASES = [
  { title: 'exact, /v1/decision, 32 connections', mode: 'exact' },
  { title: 'exact, ShouldRateLimit, 2 connections of 100 streams', mode: 'exact', grpc: { connections: 2, streams: 100 } },
  { title: 'exact, ShouldRateLimit, 32 connections of one stream', mode: 'exact', grpc: { connections: 32, streams: 1 } },
  { title: 'leased, /v1/decision, 32 connections', mode: 'leased' },
]

/**
 * Prints what a decision costs in this build beside another built checkout, in CPU time of all threads of edge and of Redis. The builds are asked in
 * turn, in short slices; the other build takes part twice, and how far it is from itself is the noise. `only` is a part of the titles to compare.
 */
export async function compareBuilds(redisServer, against, { rounds, only }) {
  const loads = { http: await newSocketLoad({ connections: 32, depth: 1 }), grpc: await newGrpcLoad() }
  const other = resolve(against)
  console.log(
    `node ${process.version}, ${rounds} interleaved rounds of ${SLICE_SECONDS * 1000} ms; load of the machine before: ${loadavg()[0].toFixed(1)}`,
  )
  for (const each of CASES.filter(({ title }) => title.includes(only))) {
    const { steal } = await stealDuring(() => compare(each, redisServer, loads, other, rounds))
    console.log(`  steal: ${(steal * 100).toFixed(1)} %`)
  }
}

async function compare({ title, mode, grpc }, redisServer, loads, other, rounds) {
  const servers = []
  for (const [name, directory] of [
    ['the other build', other],
    ['the other build again', other],
    ['this build', HERE],
  ]) {
    const main = pathToFileURL(join(directory, 'program/edge.js'))
    const { server, redis } = await startOnRedis(redisServer, mode, { main, hasGrpc: grpc !== undefined })
    const run = newRun(server, grpc, loads)
    servers.push({ name, server, redis, run, samples: [] })
  }
  for (const each of servers) await warmUp(each)
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < servers.length; i++) {
      const each = servers[(round + i) % servers.length]
      each.samples[round] = await slice(each)
    }
  }
  console.log(`\n${line(title, 'CPU µs', 'ratio', 'middle half', 'fastest tenth', 'ratio', 'Redis µs', 'ratio')}`)
  for (const { name, samples } of servers) {
    const { median, low, high } = ratioOf(samples, servers[0].samples, 'cpuUs')
    const redisRatio = ratioOf(samples, servers[0].samples, 'redisUs').median
    // On a busy machine the fastest slices say most: they are those that nobody disturbed.
    const [fastest, fastestOther] = [samples, servers[0].samples].map((all) => fastestOf(all))
    const of = (figure) => quartiles(samples.map((sample) => sample[figure])).median.toFixed(2)
    console.log(
      line(
        `  ${name}`,
        of('cpuUs'),
        median.toFixed(3),
        `${low.toFixed(3)}–${high.toFixed(3)}`,
        fastest.toFixed(2),
        (fastest / fastestOther).toFixed(3),
        of('redisUs'),
        redisRatio.toFixed(3),
      ),
    )
  }
  for (const { server, redis } of servers) {
    await stop(server)
    await stop(redis)
  }
}

function newRun(server, grpc, loads) {
  if (grpc !== undefined) return () => loads.grpc.run({ port: server.grpcPort, method: 'shouldRateLimit', seconds: SLICE_SECONDS, ...grpc })
  const keys = { first: 0, count: HOT.keys.count }
  return async () => {
    const result = await loads.http.run({ port: server.port, text: textOf(HOT.request), seconds: SLICE_SECONDS, keys })
    keys.first += result.requests
    return result
  }
}

async function warmUp(each) {
  let requests = 0
  for (let i = 0; i < MAX_WARM_UP_SLICES && requests < WARM_UP_REQUESTS; i++) requests += (await slice(each)).requests
}

async function slice({ name, server, redis, run }) {
  const before = { edge: cpuTimes(server.pid), redis: cpuTimes(redis.pid) }
  const { requests, rejected, failed } = await run()
  const [edgeUs, redisUs] = [usedUs(before.edge, cpuTimes(server.pid)), usedUs(before.redis, cpuTimes(redis.pid))]
  expect(failed + rejected === 0, `${name}: ${failed} of ${requests} failed and ${rejected} were rejected`)
  return { requests, cpuUs: edgeUs / requests, redisUs: redisUs / requests }
}

function fastestOf(samples) {
  return percentile(
    samples.map(({ cpuUs }) => cpuUs),
    0.1,
  )
}

function ratioOf(samples, others, figure) {
  return quartiles(samples.map((sample, round) => sample[figure] / others[round][figure]))
}
