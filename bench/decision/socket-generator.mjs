// Asks as fast as it can: each connection writes a batch, waits until all of it is answered, and writes the next.
import { once } from 'node:events'
import { connect } from 'node:net'

const STATUS_LINE = 'HTTP/1.1 '

process.on('message', async (options) => process.send(await run(options)))
process.send({ port: 0 })

async function run({ port, path, text, ms, keys, connections, depth }) {
  const nextBatch = keys === undefined ? constantBatch(text, depth) : batchesOf(text, depth, keys)
  const total = { requests: 0, rejected: 0, failed: 0 }
  const sockets = Array.from({ length: connections }, () =>
    connect(path === undefined ? { port, host: '127.0.0.1', noDelay: true } : { path }),
  )
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  const start = performance.now()
  const endMs = start + ms
  await Promise.all(sockets.map((socket) => keepAsking(socket, nextBatch, depth, endMs, total)))
  return { ...total, elapsedMs: performance.now() - start }
}

function keepAsking(socket, nextBatch, depth, endMs, total) {
  return new Promise((resolve) => {
    let open = depth
    let rest = ''
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => {
      if (open > 0) total.failed += open
      resolve()
    })
    socket.on('data', (chunk) => {
      const seen = rest + chunk.latin1Slice()
      let at = seen.indexOf(STATUS_LINE)
      let end = 0
      for (; at >= 0 && at + STATUS_LINE.length < seen.length; at = seen.indexOf(STATUS_LINE, end)) {
        end = at + STATUS_LINE.length + 1
        total.requests++
        if (seen[end - 1] >= '4') total.rejected++
        open--
      }
      rest = seen.slice(Math.max(end, seen.length - STATUS_LINE.length))
      if (open > 0) return
      if (performance.now() > endMs) return socket.destroy()
      open = depth
      socket.write(nextBatch())
    })
    socket.write(nextBatch())
  })
}

function constantBatch(text, depth) {
  const batch = Buffer.from(text.repeat(depth), 'latin1')
  return () => batch
}

/** The same walk through the keys as wrk.lua's. */
function batchesOf(text, depth, { first, count }) {
  const at = text.indexOf('key-') + 'key-'.length
  let number = first
  return () => {
    const batch = Buffer.from(text.repeat(depth), 'latin1')
    for (let i = 0; i < depth; i++) batch.latin1Write(String(1_000_000 + ((++number * 7919) % count)), i * text.length + at)
    return batch
  }
}
