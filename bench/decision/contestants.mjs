import { fiveRules, oneRule } from '../support/bundle.mjs'
import { MEASURED, start, stop } from '../support/processes.mjs'
import { startEdge } from './edge.mjs'
import { startHaproxy } from './haproxy.mjs'
import { startNginx } from './nginx.mjs'
import { findProgram } from './programs.mjs'
import { expectToReject, LOW_LIMIT } from './proof.mjs'
import { DECISION, DECISION_WITH_TOKEN, PLAIN, textOf } from './requests.mjs'

const HIGH_LIMIT = 1_000_000_000

// `program` is what has to be installed; `start` gets its path, if any, and the limit.
const LIMITERS = {
  edge: { name: 'edge', request: DECISION, start: (_, limit) => startEdge(oneRule(limit)) },
  nginx: { name: 'nginx limit_req', program: 'nginx', request: PLAIN, start: startNginx },
  haproxy: { name: 'HAProxy stick-table', program: 'haproxy', request: PLAIN, start: startHaproxy },
  express: { name: 'express-rate-limit', request: PLAIN, start: (_, limit) => startScript('express', limit) },
  fastify: { name: '@fastify/rate-limit', request: PLAIN, start: (_, limit) => startScript('fastify', limit) },
}

/**
 * Everybody twice: with a low limit, where each is first shown to reject, and with one that is never reached. Who is not
 * installed is there by name alone.
 */
export async function startLimiters() {
  const low = {}
  const high = {}
  for (const [id, limiter] of Object.entries(LIMITERS)) {
    const file = limiter.program && findProgram(limiter.program)
    if (limiter.program !== undefined && file === undefined) {
      console.error(`\n*** ${limiter.program} IS NOT INSTALLED: its rows stay empty. See bench/install-debian-parts.sh ***\n`)
      low[id] = high[id] = { name: limiter.name, isMissing: true }
      continue
    }
    low[id] = contestant(limiter, await limiter.start(file, LOW_LIMIT))
    await expectToReject(low[id])
    high[id] = contestant(limiter, await limiter.start(file, HIGH_LIMIT))
    console.error(`${limiter.name} rejects`)
  }
  return { low, high }
}

/** edge with five rules, each of which is first shown to be able to reject. */
export async function startFiveRules() {
  const five = { name: 'edge, 5 rules with JWT', request: DECISION_WITH_TOKEN }
  for (const { name } of fiveRules()) {
    const server = await startEdge(fiveRules((each) => (each === name ? LOW_LIMIT : HIGH_LIMIT)))
    // The token stays the same, and so do the buckets by its claims.
    await expectToReject({ ...five, name: `${five.name}: rule ${name}`, server, isKeyed: name === 'per-key' })
    await stop(server)
  }
  return contestant(five, await startEdge(fiveRules()))
}

/** Servers that limit nothing. */
export async function startFloors() {
  const floor = (name, server) => contestant({ name, request: DECISION }, server)
  return {
    nodeHttp: floor('empty node:http', await startScript('node-http')),
    rawNet: floor('constant node:net', await startScript('raw-net', textOf(DECISION).length)),
  }
}

function contestant({ name, request }, server) {
  return { name, request, server }
}

function startScript(name, ...args) {
  return start(MEASURED, new URL(`./${name}.mjs`, import.meta.url), { args: args.map(String), env: { NODE_ENV: 'production' } })
}
