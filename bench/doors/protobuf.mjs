// As much of protobuf as the messages of the benchmark need.

/** A field of bytes: a string, or a message that is written already. */
export function field(number, content) {
  const bytes = Buffer.from(content)
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes])
}

export function numberField(number, value) {
  return Buffer.concat([varint(number << 3), varint(value)])
}

export function message(...fields) {
  return Buffer.concat(fields)
}

function varint(value) {
  const bytes = []
  let rest = value
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return Buffer.from([...bytes, rest])
}
