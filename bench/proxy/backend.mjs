// The backend of `npm run bench:proxy`: as cheap as a server can be, so that the proxy before it is what is measured.
//   /items…  a small JSON answer, always the same
//   /echo    the request's head and body, as JSON
//   /v1…     a chat stream of `events` events, `gap` ms apart; each event's text is the moment at which it was sent
import { createServer } from 'node:net'

const HEAD_END = Buffer.from('\r\n\r\n')
const ITEM = JSON.stringify({ id: 42, name: 'a small answer', price: 12.5, tags: 'red,green,blue', stock: 7, note: 'x'.repeat(80) })
const ITEM_ANSWER = Buffer.from(answer(ITEM))
const STREAM_HEAD = `HTTP/1.1 200 OK\r\n${fields('text/event-stream; charset=utf-8')}Transfer-Encoding: chunked\r\n\r\n`
const EVENT_START =
  'data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06",' +
  '"service_tier":"default","system_fingerprint":"fp_fc9f1d7035","choices":[{"index":0,"delta":'
const EVENT_END = ',"logprobs":null,"finish_reason":null}]}\n\n'

const server = createServer({ noDelay: true }, (socket) => {
  let held
  socket.on('error', () => {}) // a client that went away
  socket.on('data', (chunk) => {
    const bytes = held === undefined ? chunk : Buffer.concat([held, chunk])
    const head = bytes.indexOf(HEAD_END)
    // Most of the requests: no body, and all of it there.
    if (bytes[0] === 0x47 && head === bytes.length - 4 && bytes[5] === 0x69) return void socket.write(ITEM_ANSWER)
    const text = bytes.toString('latin1')
    held = isWhole(text, head) ? undefined : bytes
    if (held === undefined) respond(socket, text)
  })
})
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))

function isWhole(text, head) {
  if (head < 0) return false
  const start = head + HEAD_END.length
  if (/\r\ntransfer-encoding: *chunked\r\n/i.test(text.slice(0, start))) return text.endsWith('0\r\n\r\n')
  const [, length = '0'] = /\r\ncontent-length: *(\d+)\r\n/i.exec(text.slice(0, start)) ?? []
  return text.length >= start + Number(length)
}

function respond(socket, text) {
  const [, path, query] = /^\S+ ([^ ?]*)\??(\S*)/.exec(text)
  if (path === '/echo') socket.write(answer(JSON.stringify({ request: text })))
  else if (path.startsWith('/v1')) stream(socket, new URLSearchParams(query))
  else socket.write(ITEM_ANSWER)
}

let streams = 0

function stream(socket, query) {
  let left = Number(query.get('events'))
  const gapMs = Number(query.get('gap'))
  socket.write(STREAM_HEAD)
  const send = () => {
    if (left-- > 0) return void socket.write(chunkOf(`${EVENT_START}{"content":"${process.hrtime.bigint() / 1000n}"}${EVENT_END}`))
    stop()
    socket.write(`${chunkOf('data: [DONE]\n\n')}0\r\n\r\n`)
  }
  // Streams that begin together do not speak at the same moment.
  const phaseMs = (streams++ * 0.618 * gapMs) % gapMs
  let timer = setTimeout(() => {
    timer = setInterval(send, gapMs)
  }, phaseMs)
  const stop = () => {
    clearInterval(timer)
    socket.off('close', stop)
  }
  socket.once('close', stop)
}

function chunkOf(text) {
  return `${text.length.toString(16)}\r\n${text}\r\n`
}

function answer(body) {
  return `HTTP/1.1 200 OK\r\n${fields('application/json')}Content-Length: ${body.length}\r\n\r\n${body}`
}

function fields(type) {
  return `Content-Type: ${type}\r\nCache-Control: no-store\r\nServer: backend\r\nX-Request-Id: req_011CSHoEeqs5C35K2UUqR7Fy\r\nVary: Origin\r\n`
}
