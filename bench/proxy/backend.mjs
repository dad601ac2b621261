// The backend of `npm run bench:proxy`: as cheap as a server can be, so that the proxy before it is what is measured.
//   /items…, /orders  a small JSON answer, always the same
//   /documents…       64 KB
//   /llm…             a whole chat completion, with its usage
//   /files…           256 KiB
//   /echo             the request's head and body, as JSON
//   /streams…?turn=N  a chat stream whose next event is sent when the one before has arrived: see turns.mjs
//   /streams…         a chat stream of `events` events, `gap` ms apart; each event's text is the moment at which it was sent
import { createServer } from 'node:net'
import { chatEvent, chunkOf } from './events.mjs'
import { beginTurns, takeTurns } from './turns.mjs'

const HEAD_END = Buffer.from('\r\n\r\n')
const ITEM = JSON.stringify({ id: 42, name: 'a small answer', price: 12.5, tags: 'red,green,blue', stock: 7, note: 'x'.repeat(80) })
const ITEM_ANSWER = Buffer.from(answer(ITEM))
const DOCUMENT_ANSWER = Buffer.from(answer(JSON.stringify({ text: 'lorem ipsum '.repeat(6000).slice(0, 64 * 1024 - 11) })))
const COMPLETION_ANSWER = Buffer.from(
  answer(
    JSON.stringify({
      id: 'chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG',
      object: 'chat.completion',
      created: 1741570283,
      model: 'gpt-4o-2024-08-06',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'It is four in the morning. '.repeat(3), refusal: null },
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 31, completion_tokens: 20, total_tokens: 51, prompt_tokens_details: { cached_tokens: 0 } },
    }),
  ),
)
const FILE_ANSWER = Buffer.from(answer('lorem ipsum '.repeat(22_000).slice(0, 256 * 1024)))
const STREAM_HEAD = `HTTP/1.1 200 OK\r\n${fields('text/event-stream; charset=utf-8')}Transfer-Encoding: chunked\r\n\r\n`

const server = createServer({ noDelay: true }, (socket) => {
  let held
  socket.on('error', () => {}) // a client that went away
  socket.on('data', (chunk) => {
    const bytes = held === undefined ? chunk : Buffer.concat([held, chunk])
    const head = bytes.indexOf(HEAD_END)
    // Most of the requests: no body, and all of it there.
    if (bytes[0] === 0x47 && head === bytes.length - 4 && bytes[5] === 0x69) return void socket.write(ITEM_ANSWER)
    held = head >= 0 && isWhole(bytes, head + HEAD_END.length) ? undefined : bytes
    if (held === undefined) respond(socket, bytes)
  })
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => process.send({ port: server.address().port }))

process.on('message', ({ task, ...options }) => {
  if (task === 'turns') takeTurns(options).then((result) => process.send(result))
})

function isWhole(bytes, bodyStart) {
  const head = bytes.latin1Slice(0, bodyStart)
  if (/\r\ntransfer-encoding: *chunked\r\n/i.test(head)) return bytes.latin1Slice(-5) === '0\r\n\r\n'
  const [, length = '0'] = /\r\ncontent-length: *(\d+)\r\n/i.exec(head) ?? []
  return bytes.length >= bodyStart + Number(length)
}

function respond(socket, bytes) {
  const path = bytes.latin1Slice(bytes.indexOf(0x20) + 1, bytes.indexOf(0x20, 5))
  if (path.startsWith('/streams')) stream(socket, new URLSearchParams(path.slice(path.indexOf('?'))))
  else if (path.startsWith('/documents')) socket.write(DOCUMENT_ANSWER)
  else if (path.startsWith('/llm')) socket.write(COMPLETION_ANSWER)
  else if (path.startsWith('/files')) socket.write(FILE_ANSWER)
  else if (path.startsWith('/echo')) socket.write(answer(JSON.stringify({ request: bytes.latin1Slice() })))
  else socket.write(ITEM_ANSWER)
}

let streams = 0

function stream(socket, query) {
  socket.write(STREAM_HEAD)
  if (query.has('turn')) return beginTurns(Number(query.get('turn')), socket)
  let left = Number(query.get('events'))
  const gapMs = Number(query.get('gap'))
  const send = () => {
    if (left-- > 0) return void socket.write(chunkOf(chatEvent(`"${process.hrtime.bigint() / 1000n}"`)))
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

function answer(body) {
  return `HTTP/1.1 200 OK\r\n${fields('application/json')}Content-Length: ${body.length}\r\n\r\n${body}`
}

function fields(type) {
  return `Content-Type: ${type}\r\nCache-Control: no-store\r\nServer: backend\r\nX-Request-Id: req_011CSHoEeqs5C35K2UUqR7Fy\r\nVary: Origin\r\n`
}
