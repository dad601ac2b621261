import { startEdgeWith } from '../decision/edge.mjs'
import { freePort } from '../decision/free-port.mjs'
import { expectToReject, LOW_LIMIT } from '../decision/proof.mjs'
import { DECISION } from '../decision/requests.mjs'
import { DESCRIPTOR, DOMAIN } from '../doors/grpc-methods.mjs'
import { policy, rule } from '../support/bundle.mjs'
import { startRedis } from '../support/redis.mjs'

// What is asked about. The path chooses the limit; all keys are those of `X-Api-Key`.
const KEY = ['header:x-api-key']
const POLICIES = [
  policy('hot', '/hot', [rule('per-key', KEY, 10_000, 10_000)]),
  policy('cold', '/cold', [rule('per-key', KEY, 60, 1)]),
  policy('saturated', '/saturated', [rule('per-key', KEY, 20, 20)]),
  policy('proof', '/proof', [rule('per-key', KEY, LOW_LIMIT, 0.001)]),
  { id: 'grpc', spec: { selector: { domain: DOMAIN }, rules: [rule('per-key', [`descriptor:${DESCRIPTOR}`])] } },
]

/** Callers that come all the time, within their limits. */
export const HOT = { title: '100 hot keys, none at its limit', request: about('/hot'), keys: { count: 100 } }

/** Callers that come once and not again for a while. */
export const COLD = (count) => ({
  title: `${count.toLocaleString('en')} keys in turn, each cold`,
  request: about('/cold'),
  keys: { count },
})

/** One caller far above its limit, which lets through what was left and what is refilled meanwhile. */
export const SATURATED = {
  title: 'one key far above its limit',
  request: about('/saturated'),
  isRejected: true,
  allowed: (seconds) => 2 * (20 + 20 * seconds),
}

const EMBEDDED = { id: 'embedded', name: 'embedded (no Redis)' }
const SHARED = [
  { id: 'exact', name: 'Redis, exact' },
  { id: 'leased', name: 'Redis, leased' },
]

/** The same edge with its counters in three places, each of which is first shown to reject. */
export async function startContestants(redisServer) {
  const contestants = [{ ...EMBEDDED, server: await startEdgeWith(POLICIES) }]
  for (const each of SHARED) {
    contestants.push({ ...each, ...(await startOnRedis(redisServer, each.id)) })
  }
  for (const each of contestants) {
    await expectToReject({ ...each, request: about('/proof') })
    console.error(`${each.name} rejects`)
  }
  return contestants
}

/** edge with its counters in a Redis of its own, so that its CPU time and its counts are theirs. A Redis that is not asked sleeps. */
export async function startOnRedis(redisServer, mode, { main, hasGrpc = false } = {}) {
  const redis = await startRedis(redisServer)
  const grpcPort = hasGrpc ? await freePort() : undefined
  const env = {
    EDGE_REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    EDGE_REDIS_MODE: mode,
    // The load shares Redis's core: a wait for it is no failure here. Each round makes sure that Redis answered.
    EDGE_REDIS_TIMEOUT_MS: '2000',
    ...(hasGrpc ? { EDGE_GRPC_PORT: String(grpcPort) } : {}),
  }
  return { redis, server: Object.assign(await startEdgeWith(POLICIES, env, {}, main), { grpcPort }) }
}

function about(path) {
  return { ...DECISION, fields: { ...DECISION.fields, 'X-Original-URI': path } }
}
