import { startEdgeWith } from '../decision/edge.mjs'
import { freePort, listening } from '../decision/free-port.mjs'
import { expectToReject, LOW_LIMIT } from '../decision/proof.mjs'
import { DECISION } from '../decision/requests.mjs'
import { policy, rule } from '../support/bundle.mjs'
import { OTHERS, startProgram } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

// What is asked about. The path chooses the limit; all keys are those of `X-Api-Key`.
const KEY = ['header:x-api-key']
const POLICIES = [
  policy('hot', '/hot', [rule('per-key', KEY, 10_000, 10_000)]),
  policy('cold', '/cold', [rule('per-key', KEY, 60, 1)]),
  policy('saturated', '/saturated', [rule('per-key', KEY, 20, 20)]),
  policy('proof', '/proof', [rule('per-key', KEY, LOW_LIMIT, 0.001)]),
]

/** Callers that come all the time, within their limits. */
export const HOT = { title: '100 hot keys, none at its limit', request: about('/hot'), keys: { count: 100 } }

/** Callers that come once and not again for a while. */
export const COLD = (count) => ({
  title: `${count.toLocaleString('en')} keys in turn, each cold`,
  request: about('/cold'),
  keys: { count },
})

/** One caller far above its limit. */
export const SATURATED = { title: 'one key far above its limit', request: about('/saturated'), isRejected: true }

const EMBEDDED = { id: 'embedded', name: 'embedded (no Redis)' }
const SHARED = [
  { id: 'exact', name: 'Redis, exact' },
  { id: 'leased', name: 'Redis, leased' },
]

/** The same edge with its counters in three places, each of which is first shown to reject. */
export async function startContestants(redisServer) {
  const contestants = [{ ...EMBEDDED, server: await startEdgeWith(POLICIES) }]
  for (const each of SHARED) {
    // One Redis each, so that its CPU time and its counts are theirs. The one that is not asked sleeps.
    const redis = await startRedis(redisServer)
    const env = {
      EDGE_REDIS_URL: `redis://127.0.0.1:${redis.port}`,
      EDGE_REDIS_MODE: each.id,
      // The load shares Redis's core: a wait for it is no failure here. Each round makes sure that Redis answered.
      EDGE_REDIS_TIMEOUT_MS: '2000',
    }
    contestants.push({ ...each, redis, server: await startEdgeWith(POLICIES, env) })
  }
  for (const each of contestants) {
    await expectToReject({ ...each, request: about('/proof') })
    console.error(`${each.name} rejects`)
  }
  return contestants
}

function about(path) {
  return { ...DECISION, fields: { ...DECISION.fields, 'X-Original-URI': path } }
}

async function startRedis(file) {
  const port = await freePort()
  const options = { port, bind: '127.0.0.1', save: '', appendonly: 'no', dir: newScratchDirectory(), loglevel: 'warning' }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const redis = startProgram(OTHERS, file, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  await listening(port)
  redis.port = port
  return redis
}
