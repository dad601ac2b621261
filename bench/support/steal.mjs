import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** Above this share, times by the clock say more about the machine's other guests than about what was measured. */
export const MAX_STEAL_SHARE = 0.03

/** The time of all cores since the machine started, and how much of it the hypervisor gave to other guests, in ticks (proc(5)). */
export function readSteal() {
  const ticks = readTicks()
  return { stolen: ticks[7], total: sumOf(ticks) }
}

/** Which share of the time between two readings was stolen, from 0 to 1. */
export function stealShare(before, after) {
  const total = after.total - before.total
  return total === 0 ? 0 : (after.stolen - before.stolen) / total
}

/** As tables show it: marked where it is too much. */
export function formatSteal(share) {
  return `${(share * 100).toFixed(1)} %${share > MAX_STEAL_SHARE ? ' !' : ''}`
}

/** Returns what `run` resolves to, and which share of the time was stolen meanwhile. */
export async function stealDuring(run) {
  const before = readSteal()
  const result = await run()
  return { result, steal: stealShare(before, readSteal()) }
}

/** Which share of all cores was used in so long a time, from 0 to 1. While the benchmark's own servers are idle, this is what others use. */
export async function busyShare(ms) {
  const before = readTicks()
  await sleep(ms)
  const ticks = readTicks().map((each, i) => each - before[i])
  const total = sumOf(ticks)
  return total === 0 ? 0 : (total - ticks[3] - ticks[4]) / total
}

/** Of all cores: user, nice, system, idle, iowait, irq, softirq, steal; the guests' time that follows is part of user and nice. */
function readTicks() {
  const [line] = readFileSync('/proc/stat', 'utf8').split('\n', 1)
  return line.split(/\s+/).slice(1, 9).map(Number)
}

function sumOf(ticks) {
  return ticks.reduce((sum, each) => sum + each, 0)
}
