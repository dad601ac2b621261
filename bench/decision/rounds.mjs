import { mean, median, ratio } from '../support/statistics.mjs'
import { readSteal, stealShare } from '../support/steal.mjs'
import { cpuTimes, usedUs } from './cpu-time.mjs'
import { textOf } from './requests.mjs'

/** Contestants take turns, so that a busy machine slows all of them alike. Returns the samples of each, round by round. */
export async function measureInTurns(cases, load, { rounds, roundSeconds }) {
  const samples = new Map(cases.map((each) => [each, []]))
  for (let round = 0; round < rounds; round++) {
    for (const each of cases) if (!each.isMissing) samples.get(each).push(await measure(each, load, roundSeconds))
  }
  return samples
}

/** By requests, not by time: a compiler that works while the program runs waits for calls, and a busy machine makes them slowly. */
export async function warmUp(cases, load, { warmUpRequests, warmUpSeconds }) {
  for (const each of cases) {
    if (each.isMissing) continue
    for (let requests = 0, seconds = 0; requests < warmUpRequests && seconds < warmUpSeconds; seconds++)
      requests += (await measure(each, load, 1)).requests
  }
}

/** A contestant that is loaded in a way of its own has a `run`. */
async function measure(each, load, seconds) {
  const { name, server, request, keys, isRejected = false, run } = each
  const stealBefore = readSteal()
  const before = cpuTimes(server.pid)
  const result = run === undefined ? await load.run({ port: server.port, text: textOf(request), seconds, keys }) : await run(seconds)
  const cpuUs = usedUs(before, cpuTimes(server.pid))
  const { requests, rejected, failed, elapsedMs } = result
  if (failed > 0) throw new Error(`${name}: ${failed} of ${requests} requests failed`)
  if (isRejected ? rejected < requests * 0.99 : rejected > 0) throw new Error(`${name}: ${rejected} of ${requests} were rejected`)
  if (keys !== undefined) keys.first += requests
  return {
    requests,
    cpuUs: cpuUs / requests,
    perSecond: (requests / elapsedMs) * 1000,
    busy: cpuUs / 1000 / elapsedMs,
    steal: stealShare(stealBefore, readSteal()),
  }
}

/** Every key once, so that all of them are live. */
export async function fill({ name, isMissing, server, request, keys }, load) {
  if (isMissing) return
  console.error(`${name}: filling`)
  while (keys.first < keys.count) {
    const { requests, rejected, failed } = await load.run({ port: server.port, text: textOf(request), seconds: 2, keys })
    if (rejected + failed > 0) throw new Error(`${name}: ${rejected} requests were rejected and ${failed} failed`)
    keys.first += requests
  }
}

// Below this a server could not use its core, or had no use for it.
const BUSY_ENOUGH = 0.9
const TOO_IDLE = 0.7

export function isBusyEnough({ busy }) {
  return busy >= BUSY_ENOUGH
}

/** Somebody else had the cores for so long that a run says little; delays and requests/s say nothing. */
export function isRough(groups) {
  return groups.some(({ rows }) => rows.some(({ isMissing, busy }) => !isMissing && busy < TOO_IDLE))
}

/** One row: medians over the rounds. */
export function figures(samples) {
  const of = (pick) => median(samples.map(pick))
  return { cpuUs: of(({ cpuUs }) => cpuUs), perSecond: of(({ perSecond }) => perSecond), busy: of(({ busy }) => busy) }
}

/** How many times as fast the one is as the other, by CPU time; and how much of the machine's time was stolen meanwhile. */
export function speedRatio(samples, others) {
  if (samples.length === 0 || others.length === 0) return undefined
  const cpuUs = ({ cpuUs }) => cpuUs
  return { ...ratio(others.map(cpuUs), samples.map(cpuUs)), steal: mean([...samples, ...others].map(({ steal }) => steal)) }
}
