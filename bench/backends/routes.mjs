import { cpuTimes, usedUs } from '../decision/cpu-time.mjs'
import { textOf } from '../decision/requests.mjs'
import { atMost } from '../decision/targets.mjs'
import { ITEM } from '../proxy/requests.mjs'
import { ask, OTHERS, start, stop } from '../support/processes.mjs'
import { median, ratio } from '../support/statistics.mjs'
import { formatRatio, line } from '../support/text-table.mjs'
import { startBackend, startRoutedEdge } from './routed-edge.mjs'

const MANY = 1000
const LOAD = { connections: 16, depth: 1, ms: 250 }
const SLICES = 4
const WARM_UP_REQUESTS = 60_000
/** A slow machine is not waited for any longer. */
const WARM_UP_SLICES = 100
const MOST = 1.1

/** The route that takes the request is the last of all, and half of those before it look at a field of the request. */
export async function measureRoutes(rounds) {
  const backend = await startBackend()
  const generator = await start(OTHERS, new URL('../decision/socket-generator.mjs', import.meta.url))
  const all = { backends: [{ name: 'a' }] }
  const other = (i) => (i % 2 === 0 ? { selector: { pathPrefix: `/other-${i}` } } : { match: { 'header:x-tenant': `tenant-${i}` } })
  const many = [...Array.from({ length: MANY - 1 }, (_, i) => ({ ...other(i), ...all })), all]
  const cases = [{ name: 'EDGE_BACKEND_URL alone' }, { name: 'one route', routes: [all] }, { name: `${MANY} routes`, routes: many }]
  for (const each of cases) each.server = await startRoutedEdge({ a: backend }, each)
  const text = textOf({ ...ITEM, fields: { ...ITEM.fields, 'X-Tenant': 'none' } })
  for (const { server } of cases) {
    for (let i = 0, asked = 0; i < WARM_UP_SLICES && asked < WARM_UP_REQUESTS; i++) asked += (await slice(server, generator, text)).requests
  }
  for (const each of cases) each.cpuUs = []
  for (let i = 0; i < rounds * SLICES; i++) {
    for (let turn = 0; turn < cases.length; turn++) {
      const each = cases[(i + turn) % cases.length]
      each.cpuUs[i] = (await slice(each.server, generator, text)).cpuUs
    }
  }
  for (const { server } of cases) await stop(server)
  const [alone, one, thousand] = cases
  console.log(`\n${line('a request through routes', 'CPU µs', 'ratio', 'middle half')}`)
  for (const { name, cpuUs } of cases) console.log(line(`  ${name}`, median(cpuUs).toFixed(1), ...formatRatio(ratio(cpuUs, alone.cpuUs))))
  return [atMost(`${MANY} routes : one`, ratio(thousand.cpuUs, one.cpuUs), MOST)]
}

async function slice(server, generator, text) {
  const before = cpuTimes(server.pid)
  const { requests, rejected, failed } = await ask(generator, 'run', { port: server.port, text, ...LOAD })
  if (rejected + failed > 0) throw new Error(`${rejected + failed} of ${requests} requests were not answered`)
  return { requests, cpuUs: usedUs(before, cpuTimes(server.pid)) / requests }
}
