/** MMDB files (https://maxmind.github.io/MaxMind-DB/) in which every IPv4 address has one and the same record. */

type Value = string | number | { readonly [key: string]: Value }

export function mmdbWith(record: Value): Buffer {
  // One node of two 24-bit records, both of which point to the data section's beginning.
  const nodeCount = 1
  const pointer = nodeCount + 16
  const tree = Buffer.from([0, 0, pointer, 0, 0, pointer])
  const metadata = encode({
    node_count: nodeCount,
    record_size: 24,
    ip_version: 4,
    database_type: 'test',
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
  })
  return Buffer.concat([tree, Buffer.alloc(16), encode(record), Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1'), metadata])
}

const STRING = 2
const UINT32 = 6
const MAP = 7

function encode(value: Value): Buffer {
  if (typeof value === 'string') return Buffer.concat([control(STRING, value.length), Buffer.from(value)])
  if (typeof value === 'number') return Buffer.concat([control(UINT32, 4), Buffer.from([0, 0, value >>> 8, value & 0xff])])
  const entries = Object.entries(value)
  return Buffer.concat([control(MAP, entries.length), ...entries.flatMap(([key, member]) => [encode(key), encode(member)])])
}

/** Sizes below 29 fit into the control byte. */
function control(type: number, size: number): Buffer {
  return Buffer.of((type << 5) | size)
}
