import { cpuTimes, usedUs } from '../decision/cpu-time.mjs'
import { textOf } from '../decision/requests.mjs'
import { expect } from '../support/http-client.mjs'
import { countsOf } from './counts.mjs'

/**
 * Contestants take turns, so that a busy machine slows all of them alike. Before each round the same load runs unmeasured:
 * a lease does not outlive the turns of the others, and how it grows again is not what a hot key costs.
 */
export async function measureInTurns(contestants, kind, load, { rounds, roundSeconds, leadInSeconds, warmUpSeconds }) {
  const cases = contestants.map((each) => ({ ...each, run: newRun(each, kind, load) }))
  for (const { run } of cases) if (warmUpSeconds > 0) await run(warmUpSeconds)
  const samples = new Map(contestants.map(({ id }) => [id, []]))
  for (let round = 0; round < rounds; round++) {
    for (const each of cases) {
      if (leadInSeconds > 0) await each.run(leadInSeconds)
      samples.get(each.id).push(await measure(each, roundSeconds))
    }
  }
  return samples
}

function newRun({ name, server }, { request, keys, allowed, isRejected = false }, load) {
  const walk = keys && { first: 0, count: keys.count }
  return async (seconds) => {
    const result = await load.run({ port: server.port, text: textOf(request), seconds, keys: walk })
    const { requests, rejected, failed } = result
    expect(failed === 0, `${name}: ${failed} of ${requests} requests failed`)
    // A slow machine asks so rarely that what is refilled is a large part of it.
    if (isRejected) expect(requests - rejected <= allowed(seconds), `${name}: of ${requests} only ${rejected} were rejected`)
    else expect(rejected === 0, `${name}: ${rejected} of ${requests} were rejected`)
    if (walk !== undefined) walk.first += requests
    return result
  }
}

async function measure({ name, server, redis, run }, seconds) {
  const counts = redis && (await countsOf(server))
  const before = { edge: cpuTimes(server.pid), redis: redis && cpuTimes(redis.pid) }
  const { requests, elapsedMs } = await run(seconds)
  const edgeUs = usedUs(before.edge, cpuTimes(server.pid))
  const redisUs = redis && usedUs(before.redis, cpuTimes(redis.pid))
  const sample = { cpuUs: edgeUs / requests, perSecond: (requests / elapsedMs) * 1000, busy: edgeUs / 1000 / elapsedMs }
  if (redis === undefined) return sample
  const after = await countsOf(server)
  const grown = (count) => after[count] - counts[count]
  expect(grown('failures') === 0, `${name}: Redis was away for ${grown('failures')} decisions`)
  const roundTrips = grown('roundTrips')
  return { ...sample, roundTrips: roundTrips / requests, redisCpuUs: redisUs / requests, redisCpuUsEach: redisUs / roundTrips }
}
