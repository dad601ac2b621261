import { once } from 'node:events'
import { connect } from 'node:net'
import { streamRequest } from './requests.mjs'

/** One stream: when its head came, how long each event was on its way, and whether all of it arrived. */
export class StreamClient {
  #socket
  #options
  #askedUs = 0
  /** What was not read yet, as it came and without the chunks' frames. */
  #raw = ''
  #body = ''
  #isDone = false
  #hasEndMark = false
  headUs
  eventUs = []
  usages = 0

  constructor(options) {
    this.#options = options
    this.#socket = connect({ port: options.port, host: '127.0.0.1', noDelay: true })
    this.ended = once(this.#socket, 'close')
    // One that could not be opened is a lost stream.
    this.connected = Promise.race([once(this.#socket, 'connect'), this.ended])
    this.#socket.on('error', () => {}) // 'close' follows
    this.#socket.on('data', (bytes) => this.#read(bytes.toString('latin1')))
  }

  ask() {
    const { path, events, eventGapMs } = this.#options
    this.#askedUs = nowUs()
    this.#socket.write(streamRequest(`${path}?events=${events}&gap=${eventGapMs}`))
  }

  end() {
    this.#socket.destroy()
  }

  /** Every event and the end came, in an answer that ended as answers do. */
  get isComplete() {
    return this.#isDone && this.#hasEndMark && this.eventUs.length === this.#options.events
  }

  #read(text) {
    this.#raw += text
    if (this.headUs === undefined) {
      const end = this.#raw.indexOf('\r\n\r\n')
      if (end < 0) return
      if (!this.#raw.startsWith('HTTP/1.1 200 ')) return this.end()
      this.headUs = nowUs() - this.#askedUs
      this.#raw = this.#raw.slice(end + 4)
    }
    this.#readChunks()
    this.#readEvents()
    if (this.#isDone) this.end()
  }

  #readChunks() {
    while (!this.#isDone) {
      const end = this.#raw.indexOf('\r\n')
      const size = Number.parseInt(this.#raw, 16)
      if (end < 0 || this.#raw.length < end + 4 + size) return
      this.#body += this.#raw.slice(end + 2, end + 2 + size)
      this.#raw = this.#raw.slice(end + 4 + size)
      if (size === 0) this.#isDone = true
    }
  }

  #readEvents() {
    let start = 0
    for (let end = this.#body.indexOf('\n\n'); end >= 0; end = this.#body.indexOf('\n\n', start)) {
      this.#readEvent(this.#body.slice(start, end))
      start = end + 2
    }
    this.#body = this.#body.slice(start)
  }

  #readEvent(event) {
    const sent = event.indexOf('"content":"')
    if (sent >= 0) this.eventUs.push(nowUs() - Number.parseInt(event.slice(sent + 11), 10))
    if (event.includes('"usage":{', sent)) this.usages++
    if (event === 'data: [DONE]') this.#hasEndMark = true
  }
}

/** All processes of a machine share this clock. */
function nowUs() {
  return Number(process.hrtime.bigint() / 1000n)
}
