import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuTimes, usedUs } from '../decision/cpu-time.mjs'
import { residentBytes } from '../support/memory.mjs'
import { stop } from '../support/processes.mjs'
import { median, percentile, ratio } from '../support/statistics.mjs'
import { MAX_STEAL_SHARE, stealDuring } from '../support/steal.mjs'
import { generatedBy } from './backends.mjs'
import { chat, keepingAgent } from './chat-client.mjs'
import { startBudgetEdge } from './edge.mjs'
import { hasLitellm, litellmCaller, startLitellm } from './litellm.mjs'
import { nginxFile, startLimitingNginx } from './request-limiters.mjs'

const AMPLE = 1_000_000_000
/** Rates that all of them can hold on one core. */
const KINDS = [
  { id: 'whole', isStream: false, perSecond: 20, seconds: 4 },
  { id: 'streams', isStream: true, perSecond: 5, seconds: 4 },
]
const OPEN_STREAMS = 100
/** Requests before memory is read: what a process loads for its first ones is not a stream's. */
const FIRST_STREAMS = 20

/**
 * What a request costs, by the process's own CPU time, and what it adds to the time without a proxy. All have just started. They take turns in rounds, on one
 * core, where the others are idle meanwhile; the load and the backend share the other core. Ratios are medians of the ratios to nginx in the same round.
 */
export async function measureCost({ ports }, rounds) {
  const memory = await measureAllMemory(ports)
  const contestants = await openAll(ports)
  const samples = new Map(contestants.map(({ id }) => [id, { whole: [], streams: [] }]))
  const steals = []
  for (let round = 0; round <= rounds; round++) {
    console.error(`cost: round ${round} of ${rounds}${round === 0 ? ', to warm up' : ''}`)
    for (const kind of KINDS) {
      for (const each of contestants) {
        const { result, steal } = await stealDuring(() => measure(each, kind))
        if (round === 0) continue
        steals.push(steal)
        samples.get(each.id)[kind.id].push(result)
      }
    }
  }
  const rows = contestants.map(({ id, name }) => ({ id, name, ...figuresOf(samples, id), ...memory.get(id) }))
  for (const { caller } of contestants) await caller?.end()
  if (!hasLitellm) rows.push({ id: 'litellm', name: 'LiteLLM', isMissing: true })
  if (nginxFile === undefined) rows.push({ id: 'nginx', name: 'nginx', isMissing: true })
  return {
    rounds,
    kinds: KINDS.map(({ id, perSecond }) => ({ id, perSecond })),
    openStreams: OPEN_STREAMS,
    steal: {
      median: median(steals),
      most: Math.max(...steals),
      aboveBound: steals.filter((steal) => steal > MAX_STEAL_SHARE).length,
      runs: steals.length,
    },
    rows,
  }
}

async function openAll(ports) {
  const contestants = [{ id: 'direct', name: 'no proxy', port: ports.quick, key: 'none', agent: keepingAgent() }]
  for (const { id, name, open } of PROXIES) contestants.push(contestantOf(id, name, await open(ports, 'quick')))
  return contestants
}

/** Each starts in front of one model; LiteLLM is in front of all of them anyway. */
const PROXIES = [
  { id: 'nginx', name: 'nginx', isMissing: nginxFile === undefined, open: (ports, model) => startLimitingNginx(ports[model], AMPLE) },
  { id: 'edge', name: '`edge`', open: (ports, model) => startBudgetEdge({ backendPort: ports[model], budget: AMPLE }) },
  { id: 'litellm', name: 'LiteLLM', isMissing: !hasLitellm, open: openLitellm },
].filter(({ isMissing }) => !isMissing)

async function openLitellm(ports) {
  const server = await startLitellm(ports)
  return { ...litellmCaller([server], { budget: AMPLE }), end: () => stop(server) }
}

function contestantOf(id, name, caller) {
  return { id, name, caller, port: caller.ports[0], pid: caller.servers[0].pid, key: caller.key, agent: keepingAgent() }
}

async function measure(contestant, { isStream, perSecond, seconds }) {
  const before = contestant.pid && cpuOf(contestant.pid)
  const sent = []
  const begun = performance.now()
  for (let i = 0; i < perSecond * seconds; i++) {
    const dueMs = begun + (i * 1000) / perSecond
    await sleep(Math.max(0, dueMs - performance.now()))
    sent.push(chat(contestant, { model: 'quick', maxTokens: 20, isStream }))
  }
  const responses = await Promise.all(sent)
  const failed = responses.filter(({ status, isComplete }) => status !== 200 || !isComplete).length
  if (failed > 0) throw new Error(`${contestant.name}: ${failed} of ${responses.length} requests failed`)
  const delays = responses.map(({ ms, firstMs }) => (isStream ? firstMs : ms))
  return {
    cpuMs: contestant.pid && usedMs(before, cpuOf(contestant.pid)) / responses.length,
    p50Ms: percentile(delays, 0.5),
    p99Ms: percentile(delays, 0.99),
  }
}

/** What a process has used so far: by thread, and in ticks of 10 ms, which also count threads that have ended. */
function cpuOf(pid) {
  const [, fields] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const [user, system] = fields.split(' ').slice(11, 13).map(Number)
  return { threads: cpuTimes(pid), tickMs: (user + system) * 10 }
}

/** LiteLLM's threads come and go. */
function usedMs(before, after) {
  const hasLost = [...before.threads.keys()].some((thread) => !after.threads.has(thread))
  return hasLost ? after.tickMs - before.tickMs : usedUs(before.threads, after.threads) / 1000
}

/** Each by itself, in a process that has just started. By contestant. */
async function measureAllMemory(ports) {
  const memory = new Map()
  for (const { id, name, open } of PROXIES) {
    console.error(`memory: ${name}`)
    const contestant = contestantOf(id, name, await open(ports, 'held'))
    memory.set(id, await measureMemory(contestant, ports.held))
    await contestant.caller.end()
  }
  return memory
}

/** What it has in memory when idle, and the most that it has while so many streams are open, as the backend and the clients say. */
async function measureMemory(contestant, backendPort) {
  const openStream = (maxTokens) => chat(contestant, { model: 'held', maxTokens, isStream: true })
  await Promise.all(Array.from({ length: FIRST_STREAMS }, () => openStream(1)))
  const idleMb = residentMb(contestant)
  const { responses: before } = await generatedBy(backendPort)
  let isAnyOver = false
  const streams = Array.from({ length: OPEN_STREAMS }, () => openStream().then(() => (isAnyOver = true)))
  while ((await generatedBy(backendPort)).responses - before < OPEN_STREAMS) await sleep(100)
  let mostMb = residentMb(contestant)
  for (let i = 0; i < 20; i++) {
    await sleep(100)
    mostMb = Math.max(mostMb, residentMb(contestant))
  }
  if (isAnyOver) throw new Error(`${contestant.name}: a stream was over before all ${OPEN_STREAMS} were open`)
  await Promise.all(streams)
  return { idleMb, mostMb }
}

function residentMb({ pid }) {
  return residentBytes(pid) / 2 ** 20
}

function figuresOf(samples, id) {
  const figures = {}
  for (const { id: kind } of KINDS) {
    const own = samples.get(id)[kind]
    const direct = samples.get('direct')[kind]
    const nginx = samples.get('nginx')?.[kind]
    const of = (name) => median(own.map((sample) => sample[name]))
    const added = (name) => median(own.map((sample, round) => sample[name] - direct[round][name]))
    figures[kind] = {
      p50Ms: of('p50Ms'),
      ...(id !== 'direct' && { cpuMs: of('cpuMs'), addedP50Ms: added('p50Ms'), addedP99Ms: added('p99Ms') }),
      ...(id !== 'direct' &&
        id !== 'nginx' &&
        nginx && {
          cpuRatio: ratio(
            own.map(({ cpuMs }) => cpuMs),
            nginx.map(({ cpuMs }) => cpuMs),
          ).median,
        }),
    }
  }
  return figures
}
