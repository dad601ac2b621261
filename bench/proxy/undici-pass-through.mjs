// What `npm run bench:proxy` compares the proxy with: the least that one would write with node:http and undici 7. It
// copies fields, drops those that end with their hop, and streams bodies both ways. No limits, no checks, no metrics.
//
// Pool.dispatch with its documented handler is the fastest way: side by side, Pool.stream took 4 % more CPU time, and
// Pool.request, with its promise and its body stream, 4 to 13 % more.
import { createServer } from 'node:http'
import { Pool } from 'undici'

// RFC 9110 7.6.1
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']
const HOPS = new Set(HOP_BY_HOP)

const pool = new Pool(process.argv[2])

/** Passes one answer on. */
class Answer {
  #res
  #controller

  constructor(res) {
    this.#res = res
    res.on('close', () => {
      if (!res.writableFinished) this.#controller?.abort(new Error('the client went away'))
    })
  }

  onRequestStart(controller) {
    this.#controller = controller
  }

  onResponseStart(controller, status, fields, reason) {
    if (status < 200) return
    const { connection } = fields
    if (connection !== undefined && connection !== 'keep-alive')
      for (const name of connection.split(',')) delete fields[name.trim().toLowerCase()]
    for (const name of HOP_BY_HOP) if (fields[name] !== undefined) delete fields[name]
    this.#res.writeHead(status, reason, fields)
    this.#res.on('drain', () => controller.resume())
    // A stream's head does not wait for its first event.
    if (fields['content-length'] === undefined) this.#res.flushHeaders()
  }

  onResponseData(controller, chunk) {
    if (!this.#res.write(chunk)) controller.pause()
  }

  onResponseEnd() {
    this.#res.end()
  }

  onResponseError() {
    if (this.#res.headersSent) this.#res.destroy()
    else this.#res.writeHead(502).end()
  }
}

const server = createServer({ keepAliveTimeout: 75_000 }, (req, res) => {
  const hasBody = req.headers['content-length'] !== undefined || req.headers['transfer-encoding'] !== undefined
  pool.dispatch({ method: req.method, path: req.url, headers: kept(req), body: hasBody ? req : null }, new Answer(res))
})
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))

function kept({ rawHeaders, headers: { connection } }) {
  const named = connection === undefined || connection === 'keep-alive' ? undefined : connection.toLowerCase().split(/\s*,\s*/)
  const fields = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i].toLowerCase()
    if (!HOPS.has(name) && name !== 'host' && named?.includes(name) !== true) fields.push(name, rawHeaders[i + 1])
  }
  return fields
}
