// What connections hold of a server's memory: open ones that have served a request and are idle, and handshakes that wait for the client's
// last step. Each is measured in a fresh server that has served a few before, as resident memory gained per connection.
import { once } from 'node:events'
import { connect } from 'node:net'
import { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectSecurely } from 'node:tls'
import { residentBytes } from '../support/memory.mjs'
import { stop } from '../support/processes.mjs'
import { median } from '../support/statistics.mjs'
import { line } from '../support/text-table.mjs'
import { startEdge, startNginx } from './contestants.mjs'

const TRIALS = 5
const WARM_UP = 100
/** Below the number of handshakes that a worker of edge does at a time. */
const HANDSHAKES = 400
const CONNECTIONS = 1000
const SETTLE_MS = 1500
const REQUEST =
  'POST /v1/decision HTTP/1.1\r\nHost: localhost\r\nX-Original-Method: GET\r\nX-Original-URI: /a\r\nX-Api-Key: key-1000000\r\n\r\n'

export async function measureMemory({ nginx, backend, pair }) {
  const hello = await clientHello()
  const kinds = [
    { name: 'handshake in flight', isSecure: true, count: HANDSHAKES, open: (port) => openHandshake(port, hello) },
    { name: 'open connection, TLS', isSecure: true, count: CONNECTIONS, open: openSecurely },
    { name: 'open connection, plain', isSecure: false, count: CONNECTIONS, open: openPlainly },
  ]
  console.log(`\n${line('memory', 'nginx KiB', 'edge KiB')}`)
  for (const kind of kinds) {
    const servers = {
      ...(nginx !== undefined && { nginx: async () => portOf(kind, await startNginx(nginx, backend, pair)) }),
      edge: () => startEdge({ pair, isSecure: kind.isSecure }),
    }
    const kibibytes = {}
    for (const [id, startIt] of Object.entries(servers)) kibibytes[id] = median(await trials(kind, startIt))
    console.log(line(`  ${kind.name}`, kibibytes.nginx?.toFixed(1) ?? '', kibibytes.edge.toFixed(1)))
  }
}

async function trials(kind, startIt) {
  const kibibytes = []
  for (let i = 0; i < TRIALS; i++) {
    const server = await startIt()
    kibibytes.push(await kibibytesEach(kind, server))
    await stop(server.child ?? server)
  }
  return kibibytes
}

async function kibibytesEach({ open, count }, { pid, port }) {
  await close(await openAll(open, WARM_UP, port))
  await sleep(SETTLE_MS)
  const before = residentBytes(pid)
  const sockets = await openAll(open, count, port)
  await sleep(SETTLE_MS)
  const gained = residentBytes(pid) - before
  await close(sockets)
  return gained / count / 1024
}

/** A few at a time, so that no queue is long. */
async function openAll(open, count, port) {
  const sockets = []
  while (sockets.length < count)
    sockets.push(...(await Promise.all(Array.from({ length: Math.min(20, count - sockets.length) }, () => open(port)))))
  return sockets
}

async function close(sockets) {
  for (const socket of sockets) socket.destroy()
  await Promise.all(sockets.map((socket) => socket.closed || once(socket, 'close')))
}

async function openPlainly(port) {
  return askOn(connect({ port, host: '127.0.0.1' }), 'connect')
}

async function openSecurely(port) {
  return askOn(connectSecurely({ port, host: '127.0.0.1', rejectUnauthorized: false }), 'secureConnect')
}

async function askOn(socket, ready) {
  await once(socket, ready)
  socket.write(REQUEST)
  const [head] = await once(socket, 'data')
  if (!head.latin1Slice().startsWith('HTTP/1.1 200 ')) throw new Error(`not allowed: ${head}`)
  return socket
}

/** Sends the first step of a handshake and waits for the server's answer; the last step never comes. */
async function openHandshake(port, hello) {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write(hello)
  await once(socket, 'data')
  return socket
}

/** What a client says first. It may be said any number of times, because nobody goes on with it. */
async function clientHello() {
  let tell
  const said = new Promise((resolve) => {
    tell = resolve
  })
  const wire = new Duplex({
    read() {},
    write(chunk, _, done) {
      tell(chunk)
      done()
    },
  })
  const client = connectSecurely({ socket: wire, rejectUnauthorized: false, minVersion: 'TLSv1.3' })
  client.on('error', () => {})
  const hello = await said
  client.destroy()
  return hello
}

function portOf({ isSecure }, { plain, secured, child }) {
  return { ...(isSecure ? secured : plain).decides, child }
}
