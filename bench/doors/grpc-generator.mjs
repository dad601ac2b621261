// Calls as fast as it can: so many connections, with so many calls open on each.
import { newCalls } from './grpc-calls.mjs'
import { GrpcConnection } from './grpc-connection.mjs'
import { METHODS } from './grpc-methods.mjs'
import { CYCLE } from './header-blocks.mjs'

const calls = new Map()

process.on('message', async ({ task, ...options }) => process.send(await (task === 'prove' ? prove(options) : run(options))))
process.send({ port: 0 })

/** Every other connection adds its tracing fields to the dynamic table. */
async function run({ port, path, method, ms, connections, streams }) {
  const total = { requests: 0, rejected: 0, failed: 0 }
  const prepared = [false, true].map((isIndexing) => callsOf(method, isIndexing))
  const start = performance.now()
  const endMs = start + ms
  const lanes = Array.from({ length: connections }, (_, i) => {
    const startAt = i * 63 * CYCLE
    return keepCalling({ port, path, calls: prepared[i % 2], startAt, outcomeOf: METHODS[method].outcome }, streams, endMs, total)
  })
  await Promise.all(lanes)
  return { ...total, elapsedMs: performance.now() - start }
}

function keepCalling(options, streams, endMs, total) {
  return new Promise((resolve) => {
    let open = streams
    const connection = new GrpcConnection({
      ...options,
      onEnd: (outcome) => {
        total.requests++
        if (outcome === 'rejected') total.rejected++
        else if (outcome === 'failed') total.failed++
        open--
        if (performance.now() < endMs) {
          open++
          connection.call()
        } else if (open === 0) connection.close()
      },
      onClose: () => {
        total.failed += open
        resolve()
      },
    })
    for (let i = 0; i < streams; i++) connection.call()
    connection.flush()
  })
}

/** One call after the other, with these keys. Returns the outcome of each. */
function prove({ port, path, method, keys }) {
  return new Promise((resolve) => {
    const outcomes = []
    const calls = newCalls(method, false, (i) => keys[i] ?? keys.at(-1))
    const connection = new GrpcConnection({
      port,
      path,
      calls,
      startAt: 0,
      outcomeOf: METHODS[method].outcome,
      onEnd: (outcome) => {
        outcomes.push(outcome)
        if (outcomes.length === keys.length) return connection.close()
        connection.call()
      },
      onClose: () => resolve({ outcomes }),
    })
    connection.call()
    connection.flush()
  })
}

function callsOf(method, isIndexing) {
  const name = `${method} ${isIndexing}`
  if (!calls.has(name)) calls.set(name, newCalls(method, isIndexing))
  return calls.get(name)
}
