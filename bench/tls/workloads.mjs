import { readFileSync } from 'node:fs'
import { cpuTimes, usedUs } from '../decision/cpu-time.mjs'
import { DECISION, textOf } from '../decision/requests.mjs'
import { ITEM } from '../proxy/requests.mjs'
import { ask } from '../support/processes.mjs'
import { makeHandshakes } from './handshakes.mjs'

const STREAMS = 64
const FILE = { ...ITEM, path: '/files/7' }
/** The kernel counts the time of children that have ended in hundredths of a second. */
const TICK_US = 10_000

/** What is measured. A handshake has no plain counterpart. */
export const WORKLOADS = {
  decision: { title: 'decision, nginx: return 200', unit: 'request', job: 'decides', load: requests(DECISION), warmUp: 40_000 },
  items: { title: 'proxied, small JSON', unit: 'request', job: 'proxies', load: requests(ITEM), warmUp: 20_000 },
  files: { title: 'proxied, 256 KiB', unit: 'request', job: 'proxies', load: requests(FILE), warmUp: 6000 },
  streams: { title: 'proxied, SSE', unit: 'event', job: 'proxies', load: events, warmUp: 30_000 },
  full: {
    title: 'new connection, full handshake',
    unit: 'connection',
    job: 'proxies',
    load: handshakes(false),
    warmUp: 2000,
    isSecureOnly: true,
  },
  resumed: {
    title: 'new connection, resumed session',
    unit: 'connection',
    job: 'proxies',
    load: handshakes(true),
    warmUp: 2000,
    isSecureOnly: true,
  },
}

/** A server under a workload, as the rounds of bench/decision take it. `loads` gets what the other core did meanwhile, of its time. */
export function caseOf({ job, load }, { name, servers, isSecure }, tools) {
  const server = servers[job]
  const loads = []
  const run = async (seconds) => {
    const before = loadUs(tools.backend)
    const result = await load(tools, { port: server.port, isSecure, seconds })
    loads.push((loadUs(tools.backend) - before) / 1000 / result.elapsedMs)
    return result
  }
  return { name, server, run, loads }
}

function requests(request) {
  const text = textOf(request)
  return ({ wrk }, options) => wrk.run({ ...options, text })
}

function events({ backend }, { port, isSecure, seconds }) {
  return ask(backend, 'turns', { port, isSecure, path: '/streams/plain', streams: STREAMS, ms: seconds * 1000 })
}

function handshakes(isResumed) {
  return ({ openssl }, { port, seconds }) => makeHandshakes(openssl, { port, seconds, isResumed })
}

/** CPU time of all programs that have made load so far, and of the backend. */
function loadUs(backend) {
  const fields = readFileSync('/proc/self/stat', 'latin1')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[13]) + Number(fields[14])) * TICK_US + usedUs(new Map(), cpuTimes(backend.pid))
}
