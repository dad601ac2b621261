import { utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { oneRule, policy } from '../support/bundle.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

const HERE = fileURLToPath(new URL('../../', import.meta.url))
const TOKEN = 'of-a-benchmark-0123456789-0123456789'

/** What is started, and how its port is told to it. Without `env` nothing listens: the process is timed to its end. */
export function contestants(otherCheckout) {
  const bundle = writeBundle()
  const edge = (name, checkout, env = {}) => ({
    name,
    args: [fileURLToPath(new URL('program/edge.js', pathToFileURL(`${checkout}/`))), 'serve'],
    env: (port, adminPort) => ({
      EDGE_CONFIG_FILE: bundle,
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: String(port),
      EDGE_LOG_LEVEL: 'error',
      EDGE_WORKERS: '2',
      ...(env.EDGE_ADMIN_TOKEN !== undefined && { EDGE_ADMIN_PORT: String(adminPort) }),
      ...env,
    }),
    path: '/readyz',
    hasAdminPort: env.EDGE_ADMIN_TOKEN !== undefined,
  })
  // Nobody listens there: a start does not wait for the backend.
  const proxy = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1:9' }
  const redisUrl = process.env.BENCH_REDIS_URL
  const starts = [
    ['decision_service', {}],
    ['decision_service, 1 worker', { EDGE_WORKERS: '1' }],
    ['with an admin port', { EDGE_ADMIN_TOKEN: TOKEN }],
    ...(redisUrl === undefined ? [] : [['with Redis', { EDGE_REDIS_URL: redisUrl }]]),
    ['reverse_proxy', proxy],
    ['reverse_proxy, 1 worker', { ...proxy, EDGE_WORKERS: '1' }],
  ]
  return [
    { name: 'node -e 0', args: ['-e', '0'] },
    {
      name: 'node:http in 2 threads',
      args: [fileURLToPath(new URL('hello.mjs', import.meta.url))],
      env: (port) => ({ PORT: String(port) }),
      path: '/',
    },
    ...starts.flatMap(([name, settings]) => [
      edge(name, HERE, settings),
      ...(otherCheckout === undefined ? [] : [edge(`${name}, other`, otherCheckout, settings)]),
    ]),
  ]
}

/** As old as a bundle in practice: one that was written a moment ago is read twice, 100 ms apart. */
function writeBundle() {
  const path = join(newScratchDirectory(), 'bundle.json')
  writeFileSync(path, JSON.stringify({ bundle_version: 1, policies: [policy('bench', '/api', oneRule())] }))
  const lastWritten = Date.now() / 1000 - 3600
  utimesSync(path, lastWritten, lastWritten)
  return path
}
