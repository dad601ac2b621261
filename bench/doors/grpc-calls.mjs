// Calls as bytes, written ahead: the generator shares its core with nobody, but must not be what is measured.
import { createHash } from 'node:crypto'
import { METHODS } from './grpc-methods.mjs'
import { newHeaderBlocks } from './header-blocks.mjs'

const FRAME_BYTES = 9
const DATA = 0x0
const HEADERS = 0x1
const END_STREAM = 0x1
const END_HEADERS = 0x4

/** So many differ in their key and their tracing fields, more than a cache of header blocks would keep. They are called in turn, from a multiple of CYCLE on. */
const CALL_COUNT = 8192

/** A call: HEADERS and DATA. The numbers of their stream are written by `writeCall`. */
export function newCalls(methodName, isIndexing, keyOf = distinctKey) {
  const { path, request } = METHODS[methodName]
  const blocks = newHeaderBlocks(path, isIndexing)
  const callOf = (i, write) => {
    const ids = tracingOf(i)
    const block = write(ids, i - 1)
    const message = request({ key: keyOf(i), ...ids })
    const body = Buffer.alloc(5 + message.length)
    body.writeUInt32BE(message.length, 1)
    message.copy(body, 5)
    const bytes = Buffer.concat([frame(HEADERS, END_HEADERS, block), frame(DATA, END_STREAM, body)])
    return { bytes, dataAt: FRAME_BYTES + block.length }
  }
  return {
    first: callOf(0, blocks.first),
    later: Array.from({ length: CALL_COUNT }, (_, i) => callOf(i + 1, blocks.later)),
  }
}

/** Returns where the next one goes. */
export function writeCall(into, at, { bytes, dataAt }, stream) {
  bytes.copy(into, at)
  into.writeUInt32BE(stream, at + 5)
  into.writeUInt32BE(stream, at + dataAt + 5)
  return at + bytes.length
}

export function frame(type, flags, payload, stream = 0) {
  const head = Buffer.alloc(FRAME_BYTES)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

function distinctKey(i) {
  return `key-${1_000_000 + ((i * 7919) % CALL_COUNT)}`
}

function tracingOf(i) {
  const digits = createHash('sha256').update(String(i)).digest('hex')
  const part = (from, to) => digits.slice(from, to)
  return {
    requestId: `${part(0, 8)}-${part(8, 12)}-4${part(13, 16)}-a${part(17, 20)}-${part(20, 32)}`,
    traceparent: `00-${part(0, 32)}-${part(32, 48)}-01`,
  }
}
