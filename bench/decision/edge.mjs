import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { policy } from '../support/bundle.mjs'
import { MEASURED, start } from '../support/processes.mjs'
import { newScratchDirectory } from '../support/scratch.mjs'

const MAIN = new URL('../../program/edge.js', import.meta.url)

/** edge as its users start it, with these rules and one worker. */
export function startEdge(rules) {
  return startEdgeWith([policy('bench', '/api', rules)])
}

/** `more` are further parts of the bundle; `main` is the program of another build. */
export function startEdgeWith(policies, env = {}, more = {}, main = MAIN) {
  const bundle = join(newScratchDirectory(), 'bundle.json')
  writeFileSync(bundle, JSON.stringify({ bundle_version: 1, policies, ...more }))
  return start(MEASURED, main, {
    args: ['serve'],
    env: { EDGE_CONFIG_FILE: bundle, EDGE_HOST: '127.0.0.1', EDGE_PORT: '0', EDGE_LOG_LEVEL: 'error', EDGE_WORKERS: '1', ...env },
  })
}
