import { connect } from 'node:net'
import { frame, writeCall } from './grpc-calls.mjs'

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const FRAME_BYTES = 9
const PREFIX_BYTES = 5
const [DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE] = [0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8]
const END_STREAM = 0x1
const ACK = 0x1
/** Adds up to the largest window there is: answers of a run are smaller. */
const WINDOW = Buffer.from([0x7f, 0xff, 0, 0])
const BATCH_BYTES = 256 * 1024

/**
 * An HTTP/2 connection that makes calls and reads as little of the answers as it can. `onEnd` is told the outcome of each call: allowed, rejected, or failed
 * where it has no message.
 */
export class GrpcConnection {
  #socket
  #calls
  #outcomeOf
  #onEnd
  #nextStream = 1
  #next = 0
  #rest = Buffer.alloc(0)
  /** Of calls whose message has come and whose trailers have not. */
  #outcomes = new Map()
  #batch = Buffer.allocUnsafe(BATCH_BYTES)
  #batchEnd = 0

  constructor({ port, path, calls, startAt, outcomeOf, onEnd, onClose }) {
    this.#calls = calls
    this.#next = startAt
    this.#outcomeOf = outcomeOf
    this.#onEnd = onEnd
    this.#socket = connect(path === undefined ? { port, host: '127.0.0.1', noDelay: true } : { path })
    this.#socket.on('error', () => {}) // 'close' follows
    this.#socket.on('close', onClose)
    this.#socket.on('data', (chunk) => this.#read(chunk))
    this.#socket.write(Buffer.concat([PREFACE, frame(SETTINGS, 0, Buffer.alloc(0)), frame(WINDOW_UPDATE, 0, WINDOW)]))
  }

  /** Goes out with `flush`. */
  call() {
    const { first, later } = this.#calls
    const call = this.#nextStream === 1 ? first : later[this.#next++ % later.length]
    if (this.#batchEnd + call.bytes.length > BATCH_BYTES) this.flush()
    this.#batchEnd = writeCall(this.#batch, this.#batchEnd, call, this.#nextStream)
    this.#nextStream += 2
  }

  flush() {
    if (this.#batchEnd === 0) return
    // The socket may keep what it is given.
    this.#socket.write(Buffer.from(this.#batch.subarray(0, this.#batchEnd)))
    this.#batchEnd = 0
  }

  close() {
    this.#socket.destroy()
  }

  #read(chunk) {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    while (at + FRAME_BYTES <= bytes.length) {
      const end = at + FRAME_BYTES + bytes.readUIntBE(at, 3)
      if (end > bytes.length) break
      this.#frame(bytes, at, end)
      at = end
    }
    this.#rest = at === bytes.length ? EMPTY : Buffer.from(bytes.subarray(at))
    this.flush()
  }

  #frame(bytes, at, end) {
    const [type, flags] = [bytes[at + 3], bytes[at + 4]]
    if (type === DATA) {
      const outcome = end - at > FRAME_BYTES + PREFIX_BYTES ? this.#outcomeOf(bytes, at + FRAME_BYTES + PREFIX_BYTES) : 'failed'
      this.#outcomes.set(bytes.readUInt32BE(at + 5), outcome)
      if (flags & END_STREAM) this.#end(bytes.readUInt32BE(at + 5))
    } else if (type === HEADERS) {
      if (flags & END_STREAM) this.#end(bytes.readUInt32BE(at + 5))
    } else if (type === RST_STREAM) {
      this.#outcomes.delete(bytes.readUInt32BE(at + 5))
      this.#onEnd('failed')
    } else if (type === SETTINGS && !(flags & ACK)) this.#socket.write(frame(SETTINGS, ACK, Buffer.alloc(0)))
    else if (type === PING && !(flags & ACK)) this.#socket.write(frame(PING, ACK, bytes.subarray(at + FRAME_BYTES, end)))
    else if (type === GOAWAY) this.close()
  }

  #end(stream) {
    const outcome = this.#outcomes.get(stream) ?? 'failed'
    this.#outcomes.delete(stream)
    this.#onEnd(outcome)
  }
}

const EMPTY = Buffer.alloc(0)
