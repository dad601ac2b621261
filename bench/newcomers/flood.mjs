// The flood of `bench/newcomers.mjs`: connections that send something and then nothing, and are opened anew whenever they are closed.
import { connect, createServer } from 'node:net'
import { connect as connectTls } from 'node:tls'

const REOPEN_MS = 200
const HELLO = await clientHello()
const BODY = Buffer.alloc(900_000, 'x')
const SENT = {
  silent: Buffer.alloc(0),
  'half-head': Buffer.from('GET /livez HTTP/1.1\r\nHost: a\r\n'),
  hello: HELLO,
  churn: HELLO,
  body: Buffer.concat([Buffer.from('POST /admin/v1/session HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n'), BODY]),
}
let opened = 0

process.on('message', async ({ task, ...options }) => {
  if (task === 'begin') await begin(options)
  process.send({ opened })
})
process.send({ port: 0 })

async function begin({ port, what, addresses, connections }) {
  for (let i = 0; i < connections; i++) {
    open({ port, what, localAddress: `127.0.7.${(i % addresses) + 1}` })
    // No more at once than a listener's queue holds.
    if (i % 100 === 99) await new Promise((resolve) => setTimeout(resolve, 100))
  }
  opened = 0
}

function open(options) {
  const { port, what, localAddress } = options
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket
    .on('connect', () => {
      opened++
      socket.write(SENT[what])
    })
    .on('data', () => {
      // The server has signed, and that was all that this client wanted.
      if (what === 'churn') socket.destroy()
    })
    .on('error', () => {})
    .on('close', () => setTimeout(open, what === 'churn' ? 0 : REOPEN_MS, options))
}

/** What a real client sends first. */
function clientHello() {
  return new Promise((resolve) => {
    const server = createServer((socket) => {
      socket
        .on('error', () => {})
        .once('data', (bytes) => {
          resolve(bytes)
          socket.destroy()
          server.close()
        })
    })
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] }).on('error', () => {})
    })
  })
}
