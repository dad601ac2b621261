import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { freePort, listening } from '../decision/free-port.mjs'
import { findProgram } from '../decision/programs.mjs'
import { oneRule, policy } from '../support/bundle.mjs'
import { OTHERS, startProgram } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'
import { newCertificate } from '../tls/certificate.mjs'

const TOKEN = 'of-a-benchmark-0123456789-0123456789'
const WORKERS = 2

// Two threads with a server each and nothing else: what a process of Node that does nothing takes on this machine.
const BARE_SERVER = `
const { Worker } = require('node:worker_threads')
const listen = "require('node:http').createServer((req, res) => res.end()).listen(0, '127.0.0.1')"
for (let i = 0; i < ${WORKERS}; i++) new Worker(listen, { eval: true })
`

/** What is left alone, and how it is started: `args` of Node and its environment. A setting whose program is not installed has none. */
export async function contestants(checkout) {
  const bundle = writeBundle()
  const program = new URL('program/edge.js', pathToFileURL(`${checkout}/`)).pathname
  const edge = async (name, env) => ({
    name,
    args: [program, 'serve'],
    env: {
      EDGE_CONFIG_FILE: bundle,
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: String(await freePort()),
      EDGE_LOG_LEVEL: 'error',
      EDGE_WORKERS: String(WORKERS),
      ...env,
    },
  })
  const proxy = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9' }
  const admin = async () => ({ EDGE_ADMIN_PORT: String(await freePort()), EDGE_ADMIN_TOKEN: TOKEN })
  const grpc = async () => ({ EDGE_GRPC_PORT: String(await freePort()) })
  const newFleet = await startRedis()
  const tls = newTls()
  const rows = [{ name: `node:http in ${WORKERS} threads`, args: ['-e', BARE_SERVER], env: {} }]
  const add = async (name, ...parts) =>
    rows.push(parts.includes(undefined) ? { name, isMissing: true } : await edge(name, Object.assign({}, ...parts)))
  await add('decision_service, 1 worker', { EDGE_WORKERS: '1' })
  await add('decision_service', {})
  await add('decision_service, gRPC', await grpc())
  await add('reverse_proxy', proxy)
  await add('reverse_proxy, TLS', proxy, tls)
  await add('decision_service, admin port', await admin())
  await add('decision_service, state file', { EDGE_STATE_FILE: scratch('counters') })
  await add('reverse_proxy, usage log', proxy, { EDGE_USAGE_DIR: scratch('usage'), EDGE_DECISION_LOG: scratch('decisions') })
  await add('decision_service, Redis exact', newFleet?.('exact'))
  await add('decision_service, Redis leased', newFleet?.('leased'))
  await add('decision_service, admin port, Redis exact', await admin(), newFleet?.('exact'))
  const files = () => ({ EDGE_STATE_FILE: scratch('counters'), EDGE_DECISION_LOG: scratch('decisions') })
  await add('decision_service, everything, Redis exact', await admin(), await grpc(), files(), tls, newFleet?.('exact'))
  for (const mode of ['exact', 'leased']) {
    const usage = { EDGE_USAGE_DIR: scratch('usage') }
    await add(`reverse_proxy, everything, Redis ${mode}`, proxy, await admin(), files(), usage, tls, newFleet?.(mode))
  }
  return rows
}

function writeBundle() {
  const path = scratch('bundle.json')
  writeFileSync(path, JSON.stringify({ bundle_version: 1, policies: [policy('bench', '/api', oneRule())] }))
  return path
}

/** Starts a Redis. Each instance that uses it is a fleet of its own. */
async function startRedis() {
  const file = findProgram('redis-server')
  if (file === undefined) return undefined
  const port = await freePort()
  const options = { port, bind: '127.0.0.1', save: '', appendonly: 'no', dir: newScratchDirectory(), loglevel: 'warning' }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  startProgram(OTHERS, file, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  await listening(port)
  let fleets = 0
  return (mode) => ({
    EDGE_REDIS_URL: `redis://127.0.0.1:${port}`,
    EDGE_REDIS_MODE: mode,
    EDGE_REDIS_PREFIX: `fleet-${++fleets}`,
    // Many instances share its core: a wait for it is no failure here.
    EDGE_REDIS_TIMEOUT_MS: '2000',
  })
}

function newTls() {
  const openssl = findProgram('openssl')
  if (openssl === undefined) return undefined
  const { certificate, key } = newCertificate(openssl)
  return { EDGE_TLS_CERT_FILE: certificate, EDGE_TLS_KEY_FILE: key }
}

function scratch(name) {
  return join(newScratchDirectory(), name)
}
