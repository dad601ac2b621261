// Asks at moments that are fixed beforehand, whatever the answers do. A delay counts from the moment at which a request was
// due, not from when a connection was free for it: a server that stalls cannot hide how many it kept waiting.
import { once } from 'node:events'
import { connect } from 'node:net'
import { percentile } from '../support/statistics.mjs'

const PATIENCE_MS = 10_000

process.on('message', async (options) => process.send(await run(options)))
process.send({ port: 0 })

async function run({ port, text, keys, perSecond, seconds, connections = 32 }) {
  const requests = textsOf(text, keys).map((each) => Buffer.from(each, 'latin1'))
  const count = perSecond * seconds
  const delaysUs = new Float64Array(count)
  const idle = await Promise.all(Array.from({ length: connections }, () => open(port)))
  const all = [...idle]
  const startUs = nowUs() + 1000
  const dueUs = (i) => startUs + (i * 1e6) / perSecond
  let sent = 0
  let answered = 0
  await new Promise((resolve, reject) => {
    for (const connection of all) {
      connection.onAnswer = () => {
        delaysUs[connection.request] = nowUs() - dueUs(connection.request)
        answered++
        idle.push(connection)
      }
      connection.socket.on('close', () => reject(new Error('a connection was closed')))
    }
    const lookAtClock = () => {
      const now = nowUs()
      for (; sent < count && idle.length > 0 && dueUs(sent) <= now; sent++) {
        const connection = idle.pop()
        connection.request = sent
        connection.socket.write(requests[sent % requests.length])
      }
      if (answered === count) resolve()
      else if (now > dueUs(count) + PATIENCE_MS * 1000) reject(new Error(`${count - answered} requests were not answered`))
      // Timers are too coarse for a request every 200 µs.
      else setImmediate(lookAtClock)
    }
    lookAtClock()
  })
  for (const { socket } of all) socket.removeAllListeners('close').destroy()
  return { p50: percentile(delaysUs, 0.5), p99: percentile(delaysUs, 0.99), p999: percentile(delaysUs, 0.999) }
}

/** One request, or one for each key. */
function textsOf(text, keys) {
  if (keys === undefined) return [text]
  return Array.from({ length: keys.count }, (_, i) => text.replace(/key-\d+/, `key-${1_000_000 + i}`))
}

async function open(port) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  const connection = { socket, request: -1, onAnswer: undefined }
  let rest = ''
  socket.on('data', (chunk) => {
    rest += chunk.latin1Slice()
    const headEnd = rest.indexOf('\r\n\r\n')
    if (headEnd < 0) return
    const bodyBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(rest)?.[1] ?? 0)
    if (rest.length < headEnd + 4 + bodyBytes) return
    if (!rest.startsWith('HTTP/1.1 200 ')) throw new Error(`not a 200: ${rest.slice(0, headEnd)}`)
    rest = ''
    connection.onAnswer()
  })
  return connection
}

function nowUs() {
  return performance.now() * 1000
}
