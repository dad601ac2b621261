// Preloaded into every thread of a process that is watched: how long its event loop was blocked. The main thread asks them all.
import { openSync, readSync } from 'node:fs'
import { createHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import { BroadcastChannel, isMainThread } from 'node:worker_threads'

/** A timer that is due this often says how late it was; what is shorter is not seen. */
const RESOLUTION_MS = 1

const channel = new BroadcastChannel('edge-bench-probe')
channel.unref()
let delays
let work

channel.onmessage = ({ data }) => {
  if (data === 'watch') watch()
  if (data === 'report' && !isMainThread) channel.postMessage(report())
}
if (isMainThread) answerBenchmark()

/** The first thread that answers is the worker: there is one. */
function answerBenchmark() {
  process.on('message', ({ task }) => {
    if (task === 'watch') channel.postMessage('watch')
    if (task !== 'report') return
    channel.onmessage = ({ data }) => process.send(data)
    channel.postMessage('report')
  })
}

/**
 * Delays are by the clock: they include the time in which others had the core. Work is the CPU time of this thread from one timer to
 * the next: it is the same on a busy machine.
 */
function watch() {
  delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  delays.enable()
  work = createHistogram()
  const file = openSync('/proc/thread-self/schedstat', 'r')
  const bytes = Buffer.alloc(64)
  const usedNs = () => Number.parseInt(bytes.latin1Slice(0, readSync(file, bytes, 0, bytes.length, 0)), 10)
  let before = usedNs()
  setInterval(() => {
    const now = usedNs()
    work.record(Math.max(1, now - before))
    before = now
  }, RESOLUTION_MS).unref()
}

function report() {
  // What a timer waited beyond the time that it was set for.
  const late = (ns) => Math.max(0, ns / 1e6 - RESOLUTION_MS)
  return {
    resolutionMs: RESOLUTION_MS,
    delay: { p50Ms: late(delays.percentile(50)), p999Ms: late(delays.percentile(99.9)), maxMs: late(delays.max) },
    work: { p50Ms: work.percentile(50) / 1e6, p999Ms: work.percentile(99.9) / 1e6, maxMs: work.max / 1e6 },
  }
}
