// Streams at a fixed rate: raw sockets that ask, count what comes back, and look at the clock.
import { percentile } from '../support/statistics.mjs'
import { StreamClient } from './stream-client.mjs'

/** So many connections are opened at once: a burst of thousands would be refused by the system, whoever listens. */
const OPENED_AT_ONCE = 200

process.on('message', async (options) => process.send(await run(options)))
process.send({ port: 0 })

/** So many streams, each on a connection of its own, shared among `ports`, and started `startGapMs` apart. */
async function run({ ports, path, streams, startGapMs, events, eventGapMs, timeoutMs }) {
  const clients = []
  for (let i = 0; i < streams; i++) {
    clients.push(new StreamClient({ port: ports[i % ports.length], path, events, eventGapMs }))
    if (clients.length % OPENED_AT_ONCE === 0) await Promise.all(clients.map((client) => client.connected))
  }
  await Promise.all(clients.map((client) => client.connected))
  const start = performance.now()
  for (const [i, client] of clients.entries()) setTimeout(() => client.ask(), i * startGapMs)
  const timeout = setTimeout(() => {
    for (const client of clients) client.end()
  }, timeoutMs)
  await Promise.all(clients.map((client) => client.ended))
  clearTimeout(timeout)
  return {
    elapsedMs: performance.now() - start,
    completed: clients.filter(({ isComplete }) => isComplete).length,
    usages: clients.reduce((sum, { usages }) => sum + usages, 0),
    events: clients.reduce((sum, { eventUs }) => sum + eventUs.length, 0),
    headUs: percentiles(clients.flatMap(({ headUs }) => headUs ?? [])),
    eventUs: percentiles(clients.flatMap(({ eventUs }) => eventUs)),
  }
}

function percentiles(numbers) {
  return { p50: percentile(numbers, 0.5), p99: percentile(numbers, 0.99) }
}
