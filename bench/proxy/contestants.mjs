import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findProgram } from '../decision/programs.mjs'
import { MEASURED, start, stop } from '../support/processes.mjs'
import { startEdge } from './edge.mjs'
import { startHaproxy } from './haproxy.mjs'
import { startNginx } from './nginx.mjs'
import { expectToCharge, expectToCut, expectToLimit, expectToPass, expectToReport } from './proof.mjs'

const HERE = fileURLToPath(new URL('../..', import.meta.url))
export const HIGH_LIMIT = 1_000_000_000
const LOW_LIMIT = 3

/** How each is started. */
export const CONTESTANTS = {
  nginx: (backend) => startProgramTwice('nginx', 'nginx', startNginx, backend),
  haproxy: (backend) => startProgramTwice('HAProxy', 'haproxy', startHaproxy, backend),
  edge: (backend) => startProvenEdge({ name: 'edge', backend }),
  node: (backend) => startProvenEdge({ name: 'edge, node:http wire', backend, env: { EDGE_PROXY_WIRE: 'node' } }),
  undici: startPassThrough,
}

/** By id, each shown to do its job. Who is not installed is there by name alone. */
export async function startContestants(backend, { against, isContestant }) {
  const started = {}
  for (const [id, startIt] of Object.entries(CONTESTANTS)) if (isContestant(id)) started[id] = await startIt(backend)
  if (against !== undefined) started.other = await startProvenEdge({ name: 'edge, other build', directory: resolve(against), backend })
  return started
}

/** Of this checkout, or of another. */
export async function startProvenEdge({ name, directory = HERE, ...options }) {
  const contestant = { name, server: await startEdge({ directory, ...options }), dropsHops: true }
  await expectToLimit(contestant)
  await expectToCut(contestant)
  await expectToCharge(contestant)
  contestant.server.raiseLimits()
  await expectToReport(contestant)
  await expectToPass(contestant)
  return contestant
}

/** With a low limit, to show that it rejects, and then with one that nobody reaches. */
async function startProgramTwice(name, program, startWith, backend) {
  const file = findProgram(program)
  if (file === undefined) {
    console.error(`\n*** ${program} IS NOT INSTALLED: its rows stay empty. See bench/install-debian-parts.sh ***\n`)
    return { name, isMissing: true }
  }
  const limited = await startWith(file, { backend, limit: LOW_LIMIT })
  await expectToLimit({ name, server: limited })
  await stop(limited)
  const contestant = { name, server: await startWith(file, { backend, limit: HIGH_LIMIT }), isCompiled: true }
  await expectToPass(contestant)
  return contestant
}

/** It limits nothing. */
async function startPassThrough(backend) {
  const server = await start(MEASURED, new URL('./undici-pass-through.mjs', import.meta.url), {
    args: [`http://127.0.0.1:${backend.port}`],
  })
  const contestant = { name: 'undici pass-through', server, dropsHops: true }
  await expectToPass(contestant)
  return contestant
}
