// Header blocks (HPACK, RFC 7541) as two kinds of clients write them. No block refers to what another call has added to the dynamic table, so each may be sent
// at any time.

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

/**
 * `indexing`: the fields of a call that differ each time are added to the dynamic table, as grpc-go and nghttp2 do. Otherwise only those that stay the same
 * are, by the first call of a connection, and later ones refer to them.
 */
export function newHeaderBlocks(path, isIndexing) {
  const fields = constants(path)
  const whole = (prefix) => Buffer.concat([POST_HTTP, ...fields.map(([name, value]) => literal(prefix, name, value))])
  // The dynamic table begins at 62, with what was added last.
  const references = Buffer.concat([POST_HTTP, Buffer.from(fields.map((_, i) => 0x80 | (62 + fields.length - 1 - i)))])
  const [first, later] = isIndexing ? [whole(NOT_INDEXED), whole(NOT_INDEXED)] : [whole(INDEXED), references]
  const tracing = ({ requestId, traceparent }) => {
    const prefix = isIndexing ? INDEXED : NOT_INDEXED
    return Buffer.concat([literal(prefix, 'x-request-id', requestId), literal(prefix, 'traceparent', traceparent)])
  }
  return {
    first: (ids) => Buffer.concat([first, tracing(ids)]),
    later: (ids) => Buffer.concat([later, tracing(ids)]),
  }
}
