// The load of `npm run bench:proxy`: raw sockets that ask, count what comes back, and look at the clock.
import { once } from 'node:events'
import { connect } from 'node:net'
import { percentile } from '../support/statistics.mjs'
import { StreamClient } from './stream-client.mjs'

const ITEM_REQUEST = Buffer.from(
  'GET /items/42?full=1 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: bench/1.0\r\nAccept: application/json\r\n' +
    'Accept-Encoding: gzip, deflate, br\r\nX-Api-Key: key-4711-0815\r\nX-Request-Id: 7f3c2d1e\r\n\r\n',
)
const CLOSE_BRACE = 0x7d
const CONNECTIONS = 32
/** By port: they stay open from round to round. */
const connectionsOf = new Map()

const tasks = {
  /** Small answers for so long, one at a time on each connection. */
  async items({ port, ms }) {
    if (!connectionsOf.has(port)) connectionsOf.set(port, await open(port, CONNECTIONS))
    const sockets = connectionsOf.get(port)
    let count = 0
    let isOver = false
    let busy = sockets.length
    const start = performance.now()
    await new Promise((resolve, reject) => {
      for (const socket of sockets) {
        socket.on('close', () => reject(new Error('a connection was closed')))
        socket.on('data', (chunk) => {
          // A flat object ends with the answer's only brace of this kind; heads end with a line end.
          if (chunk[chunk.length - 1] !== CLOSE_BRACE) return
          count++
          if (!isOver) socket.write(ITEM_REQUEST)
          else if (--busy === 0) resolve()
        })
        socket.write(ITEM_REQUEST)
      }
      setTimeout(() => {
        isOver = true
      }, ms)
    })
    const elapsedMs = performance.now() - start
    for (const socket of sockets) socket.removeAllListeners('data').removeAllListeners('close')
    return { count, elapsedMs }
  },

  /** So many streams, each on a connection of its own, started `startGapMs` apart. */
  async streams({ port, streams, startGapMs, events, eventGapMs, timeoutMs }) {
    const clients = Array.from({ length: streams }, () => new StreamClient({ port, events, eventGapMs }))
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
  },
}

process.on('message', ({ task, ...options }) => {
  tasks[task]?.(options).then((answer) => process.send(answer))
})
process.send({ port: 0 })

async function open(port, count) {
  const sockets = Array.from({ length: count }, () => connect({ port, host: '127.0.0.1', noDelay: true }))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  return sockets
}

function percentiles(numbers) {
  return { p50: percentile(numbers, 0.5), p99: percentile(numbers, 0.99) }
}
