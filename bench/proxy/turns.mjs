// Streams at full speed, one event a read: the backend sends a stream's next event when the one before has reached the client.
// For that, clients and backend live in one process. However fast a proxy is, it never finds two events of one stream in
// a read, so that all of them do the same work for an event.
import { connect } from 'node:net'
import { connect as connectSecurely } from 'node:tls'
import { chatEvent, chunkOf, TOKENS } from './events.mjs'
import { streamRequest } from './requests.mjs'

const EVENTS_PER_STREAM = 300
const TIMEOUT_MS = 30_000
const EVENTS = TOKENS.map((token) => chunkOf(chatEvent(JSON.stringify(token))))
const LAST = Buffer.concat([chunkOf('data: [DONE]\n\n'), Buffer.from('0\r\n\r\n')])

/** By their number, in the order of their clients. */
let turns = []

/** The backend was asked for a stream, and its head is out. */
export function beginTurns(number, socket) {
  turns[number].source = socket
}

/** So many streams at once, one after the other on each connection, for so long. */
export async function takeTurns({ port, path, streams, ms, isSecure = false }) {
  const total = { events: 0, reads: 0, isOver: false }
  turns = Array.from({ length: streams }, (_, number) => new Turns({ port, isSecure }, streamRequest(`${path}?turn=${number}`), total))
  const start = performance.now()
  setTimeout(() => {
    total.isOver = true
  }, ms)
  const timeout = setTimeout(() => {
    for (const each of turns) each.fail()
  }, ms + TIMEOUT_MS)
  const lost = (await Promise.all(turns.map(({ ended }) => ended))).filter((isWhole) => !isWhole).length
  clearTimeout(timeout)
  return { requests: total.events, reads: total.reads, rejected: 0, failed: lost, elapsedMs: performance.now() - start }
}

class Turns {
  #client
  #request
  #total
  #sent = 0
  /** The last bytes that came: what an event, a head and an answer end with. */
  #tail = Buffer.alloc(5)
  #isWhole = false
  #hasHead = false
  source

  constructor({ port, isSecure }, request, total) {
    this.#request = request
    this.#total = total
    const onread = { buffer: Buffer.allocUnsafe(64 * 1024), callback: (size, buffer) => this.#read(size, buffer) }
    const begin = () => this.#client.write(request)
    const options = { port, host: '127.0.0.1', onread }
    // The certificate is one that the benchmark has made.
    if (isSecure) this.#client = connectSecurely({ ...options, rejectUnauthorized: false }, begin)
    else this.#client = connect(options, begin)
    this.#client.setNoDelay(true)
    this.#client.on('error', () => {}) // 'close' follows
    this.ended = new Promise((resolve) => this.#client.once('close', () => resolve(this.#isWhole)))
  }

  fail() {
    this.#client.destroy()
  }

  #read(size, buffer) {
    this.#total.reads++
    if (size >= 5) buffer.copy(this.#tail, 0, size - 5, size)
    else this.#tail = Buffer.concat([this.#tail.subarray(size), buffer.subarray(0, size)])
    const [a, b, c, d, e] = this.#tail
    if (d !== 0x0d || e !== 0x0a) return true
    if (this.#sent === EVENTS_PER_STREAM) {
      if (a === 0x30 && b === 0x0d && c === 0x0a) this.#next()
    } else if (c === 0x0a && (b === 0x0a) === this.#hasHead) this.#send()
    return true
  }

  /** The head, or an event, has arrived. */
  #send() {
    this.#hasHead = true
    if (this.#sent > 0) this.#total.events++
    this.source.write(EVENTS[this.#sent++ % EVENTS.length])
    if (this.#sent === EVENTS_PER_STREAM) this.source.write(LAST)
  }

  /** A stream has ended as it should. */
  #next() {
    this.#total.events++
    this.#sent = 0
    this.#hasHead = false
    this.#isWhole = this.#total.isOver
    if (this.#isWhole) this.#client.destroy()
    else this.#client.write(this.#request)
  }
}
