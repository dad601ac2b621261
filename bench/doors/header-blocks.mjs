// Header blocks (HPACK, RFC 7541) as two kinds of clients write them.

/** Without Huffman coding. `prefix`: 0x00 is not indexed, 0x40 is added to the dynamic table. */
function literal(prefix, name, value) {
  return Buffer.concat([Buffer.from([prefix]), text(name), text(value)])
}

/** RFC 7541 5.1 and 5.2. */
function text(value) {
  const bytes = Buffer.from(value, 'latin1')
  const length = bytes.length < 127 ? [bytes.length] : [127, ...continued(bytes.length - 127)]
  return Buffer.concat([Buffer.from(length), bytes])
}

function continued(value) {
  return value < 128 ? [value] : [(value & 127) | 128, ...continued(value >> 7)]
}

const NOT_INDEXED = 0x00
const INDEXED = 0x40
/** `:method: POST` and `:scheme: http` of the static table. */
const POST_HTTP = Buffer.from([0x83, 0x86])

function constants(path) {
  return [
    [':path', path],
    [':authority', 'edge'],
    ['te', 'trailers'],
    ['content-type', 'application/grpc'],
    ['user-agent', 'bench'],
  ]
}

/** A client that adds fields with each call has pushed the constant ones out of the table after a while, and adds them again. Here: every so many calls. */
export const CYCLE = 16

/**
 * The fields that stay the same are added to the dynamic table, and later calls refer to them. `isIndexing`: those that differ each time are added, too, as
 * grpc-go and nghttp2 do; all else in the table moves back by two with each call. `later` is given how many calls were made before, without the first.
 */
export function newHeaderBlocks(path, isIndexing) {
  const fields = constants(path)
  const whole = Buffer.concat([POST_HTTP, ...fields.map(([name, value]) => literal(INDEXED, name, value))])
  // The dynamic table begins at 62, with what was added last.
  const references = (addedSince) =>
    Buffer.concat([POST_HTTP, Buffer.from(fields.map((_, i) => 0x80 | (62 + addedSince + fields.length - 1 - i)))])
  const tracing = ({ requestId, traceparent }) => {
    const prefix = isIndexing ? INDEXED : NOT_INDEXED
    return Buffer.concat([literal(prefix, 'x-request-id', requestId), literal(prefix, 'traceparent', traceparent)])
  }
  const later = (calls) => {
    if (!isIndexing) return references(0)
    const sinceAdded = calls % CYCLE
    return sinceAdded === CYCLE - 1 ? whole : references(2 * (sinceAdded + 1))
  }
  return {
    first: (ids) => Buffer.concat([whole, tracing(ids)]),
    later: (ids, calls) => Buffer.concat([later(calls), tracing(ids)]),
  }
}
