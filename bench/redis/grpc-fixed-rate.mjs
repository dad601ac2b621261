// Calls ShouldRateLimit at moments that are fixed beforehand, whatever the answers do, with one call at a time on each connection. A delay counts from the
// moment at which a call was due: a server that stalls cannot hide how many it kept waiting.
import { newCalls } from '../doors/grpc-calls.mjs'
import { GrpcConnection } from '../doors/grpc-connection.mjs'
import { METHODS } from '../doors/grpc-methods.mjs'
import { CYCLE } from '../doors/header-blocks.mjs'
import { percentile } from '../support/statistics.mjs'

const METHOD = 'shouldRateLimit'
const CONNECTIONS = 64
const PATIENCE_MS = 10_000
const calls = newCalls(METHOD, false)

process.on('message', async (options) => process.send(await run(options)))
process.send({ port: 0 })

async function run({ port, perSecond, seconds }) {
  const count = perSecond * seconds
  const delaysUs = new Float64Array(count)
  const startUs = nowUs() + 20_000
  const dueUs = (i) => startUs + (i * 1e6) / perSecond
  const idle = []
  let sent = 0
  let answered = 0
  let failure
  const all = Array.from({ length: CONNECTIONS }, (_, i) => {
    const lane = { request: -1, connection: undefined }
    lane.connection = new GrpcConnection({
      port,
      calls,
      startAt: i * 63 * CYCLE,
      outcomeOf: METHODS[METHOD].outcome,
      onEnd: (outcome) => {
        if (outcome !== 'allowed') failure ??= new Error(`a call was ${outcome}`)
        delaysUs[lane.request] = nowUs() - dueUs(lane.request)
        answered++
        idle.push(lane)
      },
      onClose: () => {
        if (answered < count) failure ??= new Error('a connection was closed')
      },
    })
    idle.push(lane)
    return lane
  })
  while (answered < count) {
    const now = nowUs()
    for (; sent < count && idle.length > 0 && dueUs(sent) <= now; sent++) {
      const lane = idle.pop()
      lane.request = sent
      lane.connection.call()
      lane.connection.flush()
    }
    if (failure !== undefined) throw failure
    if (now > dueUs(count) + PATIENCE_MS * 1000) throw new Error(`${count - answered} calls were not answered`)
    // Timers are too coarse for a call every 500 µs.
    await new Promise(setImmediate)
  }
  for (const { connection } of all) connection.close()
  return { p50Us: percentile(delaysUs, 0.5), p99Us: percentile(delaysUs, 0.99), p999Us: percentile(delaysUs, 0.999) }
}

function nowUs() {
  return performance.now() * 1000
}
