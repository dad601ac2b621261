import { readFileSync } from 'node:fs'
import { findProgram } from '../decision/programs.mjs'
import { residentBytes } from '../support/memory.mjs'
import { ask, stop } from '../support/processes.mjs'
import { HIGH_LIMIT, startProvenEdge } from './contestants.mjs'
import { startNginx } from './nginx.mjs'

const WARM_UP = { streams: 100, startGapMs: 1, events: 40, eventGapMs: 20, timeoutMs: 60_000 }
const CROWDS = [
  { streams: 1000, startGapMs: 0.5, events: 60, eventGapMs: 100, timeoutMs: 120_000 },
  { streams: 10_000, startGapMs: 0.4, events: 12, eventGapMs: 1500, timeoutMs: 240_000 },
]
const PATH = '/streams/usage/v1/chat/completions'
const SAMPLE_MS = 200
/** Of a proxy, beside the two connections of each stream. */
const OTHER_FILES = 600

/**
 * Many streams at once, through processes that have done little before: how many were lost, what each took in memory, and how long
 * the worker was blocked. Where the system does not let a process have files enough, several share the streams.
 */
export async function measureCrowds(backend, load) {
  const nginx = findProgram('nginx')
  const rows = []
  for (const crowd of CROWDS) {
    rows.push(await measureCrowd({ name: 'edge', isEdge: true, startOne: () => startEdgeAlone(backend) }, crowd, load))
    if (nginx === undefined) rows.push({ name: 'nginx', streams: crowd.streams, isMissing: true })
    else rows.push(await measureCrowd({ name: 'nginx', startOne: () => startNginx(nginx, { backend, limit: HIGH_LIMIT }) }, crowd, load))
  }
  return rows
}

async function measureCrowd({ name, isEdge, startOne }, crowd, load) {
  const { streams, events, eventGapMs } = crowd
  console.error(`${streams} streams through ${name}`)
  const instances = Math.ceil((2 * streams) / (maxOpenFiles() - OTHER_FILES))
  const servers = []
  for (let i = 0; i < instances; i++) servers.push(await startOne())
  const ports = servers.map(({ port }) => port)
  await ask(load, 'run', { ports, path: PATH, ...WARM_UP })
  if (isEdge) for (const server of servers) server.send({ task: 'watch' })
  const memory = watchMemory(servers)
  const result = await ask(load, 'run', { ports, path: PATH, ...crowd })
  const grownBytes = memory.stop()
  const loops = []
  if (isEdge) for (const server of servers) loops.push(await ask(server, 'report'))
  for (const server of servers) await stop(server)
  return {
    name,
    streams,
    instances,
    lost: streams - result.completed,
    perSecondAsked: (streams * 1000) / eventGapMs,
    events: streams * events,
    bytesPerStream: grownBytes / streams,
    eventP50Us: result.eventUs.p50,
    eventP99Us: result.eventUs.p99,
    ...(isEdge ? { loop: worstOf(loops) } : {}),
  }
}

async function startEdgeAlone(backend) {
  return (await startProvenEdge({ name: 'edge', backend, isProbed: true })).server
}

/** By how much they grow at most. */
function watchMemory(servers) {
  const total = () => servers.reduce((sum, { pid }) => sum + residentBytes(pid), 0)
  const before = total()
  let most = before
  const timer = setInterval(() => {
    most = Math.max(most, total())
  }, SAMPLE_MS)
  return {
    stop() {
      clearInterval(timer)
      return most - before
    },
  }
}

/** Of several processes, each worst figure. */
function worstOf(loops) {
  const worst = (kind, figure) => Math.max(...loops.map((loop) => loop[kind][figure]))
  const figures = (kind) => ({ p50Ms: worst(kind, 'p50Ms'), p999Ms: worst(kind, 'p999Ms'), maxMs: worst(kind, 'maxMs') })
  return { resolutionMs: loops[0].resolutionMs, delay: figures('delay'), work: figures('work') }
}

/** node raises its own limit to this one; whoever it starts has the same. */
function maxOpenFiles() {
  return Number(/^Max open files\s+\S+\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))[1])
}
