import { join } from 'node:path'
import { startEdgeWith } from '../decision/edge.mjs'
import { freePort } from '../decision/free-port.mjs'
import { expectToReject, LOW_LIMIT } from '../decision/proof.mjs'
import { textOf } from '../decision/requests.mjs'
import { newSocketLoad } from '../decision/socket-load.mjs'
import { oneRule, policy, rule } from '../support/bundle.mjs'
import { expect } from '../support/http-client.mjs'
import { stop } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'
import { newGrpcLoad } from './grpc-load.mjs'
import { DESCRIPTOR, DOMAIN } from './grpc-methods.mjs'
import { DECISION, EXT_AUTHZ, FORWARD_AUTH } from './questions.mjs'
import { findRatelimit, startRatelimit } from './ratelimit.mjs'

const HIGH_LIMIT = 1_000_000_000
/** One question at a time on each connection, as gateways ask. */
const HTTP = { connections: 32, depth: 1 }
const ONE_STREAM = { connections: 32, streams: 1 }
const MANY_STREAMS = { connections: 2, streams: 100 }
const KEY_COUNT = 8192

/** Every door of edge, each a process of its own, and envoyproxy/ratelimit. Each is first shown to reject. */
export async function startDoors() {
  const http = await newSocketLoad(HTTP)
  const grpc = await newGrpcLoad()
  const overHttp = (name, request, startServer = startEdge) => httpDoor(name, request, startServer, http)
  const overGrpc = (name, method, shape, startServer = startGrpcEdge) => grpcDoor({ name, method, shape, startServer }, grpc)
  return {
    decision: await overHttp('edge, /v1/decision', DECISION),
    unixSocket: await overHttp('edge, unix socket', DECISION, startEdgeOnSocket),
    forwardAuth: await overHttp('edge, forward-auth', FORWARD_AUTH),
    extAuthz: await overHttp('edge, ext-authz', EXT_AUTHZ),
    rateLimit: await overGrpc('edge, ShouldRateLimit', 'shouldRateLimit', MANY_STREAMS),
    rateLimitAlone: await overGrpc('edge, one stream alone', 'shouldRateLimit', ONE_STREAM),
    check: await overGrpc('edge, Check', 'check', MANY_STREAMS),
    peer: await startPeer(overGrpc),
  }
}

async function startPeer(overGrpc) {
  const name = 'envoyproxy/ratelimit'
  const file = findRatelimit()
  if (file !== undefined) return overGrpc(name, 'shouldRateLimit', MANY_STREAMS, (limit) => startRatelimit(file, limit))
  console.error('\n*** envoyproxy/ratelimit OR redis-server IS NOT INSTALLED: its row stays empty. See scripts/install-test-parts.sh ***\n')
  return { name, isMissing: true }
}

async function httpDoor(name, request, startServer, load) {
  const low = await startServer(LOW_LIMIT)
  await expectToReject({ name, server: low, request })
  await stop(low)
  console.error(`${name} rejects`)
  const server = await startServer(HIGH_LIMIT)
  const keys = { first: 0, count: KEY_COUNT }
  const run = async (seconds) => {
    const result = await load.run({ port: server.port, path: server.socketPath, text: textOf(request), seconds, keys })
    keys.first += result.requests
    return result
  }
  return { name, server, run }
}

async function grpcDoor({ name, method, shape, startServer }, load) {
  const low = await startServer(LOW_LIMIT)
  const keys = [...new Array(2 * LOW_LIMIT + 2).fill('proof-1'), 'proof-2']
  const { outcomes } = await load.prove({ port: low.port, method, keys })
  const other = outcomes.pop()
  expect(outcomes[0] === 'allowed' && outcomes.at(-1) === 'rejected', `${name} rejects what is too much: ${outcomes}`)
  expect(other === 'allowed', `${name} lets another key through: ${other}`)
  await stop(low)
  console.error(`${name} rejects`)
  const server = await startServer(HIGH_LIMIT)
  return { name, server, run: (seconds) => load.run({ port: server.port, method, seconds, ...shape }) }
}

function startEdge(limit, env) {
  const byDomain = {
    id: 'by-domain',
    spec: { selector: { domain: DOMAIN }, rules: [rule('per-key', [`descriptor:${DESCRIPTOR}`], limit)] },
  }
  return startEdgeWith([policy('bench', '/api', oneRule(limit)), byDomain], env)
}

async function startEdgeOnSocket(limit) {
  const socketPath = join(newScratchDirectory(), 'edge.sock')
  return Object.assign(await startEdge(limit, { EDGE_SOCKET: socketPath }), { socketPath })
}

async function startGrpcEdge(limit) {
  const port = await freePort()
  return Object.assign(await startEdge(limit, { EDGE_GRPC_PORT: String(port) }), { port })
}
