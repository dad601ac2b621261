import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { newTableBuffer } from '../../dist/store/table/table-layout.js'
import { systemClock } from '../../dist/time/clock.js'
import { median, ratio } from '../support/statistics.mjs'
import { readSteal, stealShare } from '../support/steal.mjs'

const ROUND_MS = 250
const WARM_UP_ROUNDS = 3
const STORE_BYTES = 64 * 1024 * 1024
const KEYS = 1000

/**
 * Decisions per second of one thread and of two, both on the same table and the same keys, in turns. By the clock two threads
 * suffer more than one from whoever else uses the machine; CPU time tells what they do to one another. Two threads with keys of their
 * own take part as well: what they are faster is what it costs to pass counters from core to core.
 */
export async function measureTwoThreads(rounds) {
  const shared = { buffer: newTableBuffer(STORE_BYTES), hashKey: [1, 2], keyCount: KEYS }
  const threads = [1, 2].map((owner) => {
    const workerData = { ...shared, owner, firstKey: (owner - 1) * (KEYS / 2) }
    return new Worker(new URL('./engine-thread.mjs', import.meta.url), { workerData })
  })
  await Promise.all(threads.map((thread) => once(thread, 'message')))
  const stealBefore = readSteal()
  const one = []
  const two = []
  const apart = []
  for (let round = 0; round < WARM_UP_ROUNDS + rounds; round++) {
    const alone = await decide([threads[round % 2]])
    const together = await decide(threads)
    const withOwnKeys = await decide(threads, true)
    if (round < WARM_UP_ROUNDS) continue
    one.push(alone)
    two.push(together)
    apart.push(withOwnKeys)
  }
  const steal = stealShare(stealBefore, readSteal())
  await Promise.all(threads.map((thread) => thread.terminate()))
  const perSecond = ({ perSecond }) => perSecond
  return {
    one: median(one.map(perSecond)),
    two: median(two.map(perSecond)),
    ratio: { ...ratio(two.map(perSecond), one.map(perSecond)), steal },
    ratioByCpuTime: ratioByCpuTime(two, one),
    ratioWithOwnKeys: ratioByCpuTime(apart, one),
  }
}

function ratioByCpuTime(two, one) {
  const perCpuSecond = ({ perCpuSecond }) => perCpuSecond
  return ratio(
    two.map((sample) => 2 * perCpuSecond(sample)),
    one.map(perCpuSecond),
  )
}

async function decide(threads, hasOwnKeys = false) {
  // Time for the message to arrive everywhere.
  const startMs = systemClock.nowMs() + 5
  const before = process.cpuUsage()
  for (const thread of threads) thread.postMessage({ startMs, endMs: startMs + ROUND_MS, hasOwnKeys })
  const results = await Promise.all(threads.map(async (thread) => (await once(thread, 'message'))[0]))
  const { user, system } = process.cpuUsage(before)
  const decisions = results.reduce((sum, { decisions }) => sum + decisions, 0)
  const perSecond = results.reduce((sum, { decisions, elapsedMs }) => sum + (decisions / elapsedMs) * 1000, 0)
  return { perSecond, perCpuSecond: (decisions / (user + system)) * 1e6 }
}
