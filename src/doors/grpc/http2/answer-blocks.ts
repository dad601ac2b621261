import type { GrpcReply } from '../grpc-method.ts'
import { OK } from '../grpc-status.ts'
import { encodedStatusMessage } from '../status-message.ts'

/** Numbers of names in the static table of RFC 7541. */
const STATUS_NAME = 8
const CONTENT_TYPE_NAME = 31
const STATUS_200 = Buffer.from([0x88])
const CONTENT_TYPE = field(CONTENT_TYPE_NAME, 'application/grpc')

/** Tells the client that its table is empty from now on: we never use it. */
export const EMPTY_TABLE = 0x20

/** In front of a message. No block of ours uses the client's table, so each means the same in all connections. */
export const RESPONSE_BLOCK = Buffer.concat([STATUS_200, CONTENT_TYPE])

const OK_BLOCK = field('grpc-status', String(OK))

/** Behind the messages. */
export function trailersBlock({ status, statusMessage }: GrpcReply): Buffer {
  if (status === OK && statusMessage === '') return OK_BLOCK
  const fields = [field('grpc-status', String(status))]
  if (statusMessage !== '') fields.push(field('grpc-message', encodedStatusMessage(statusMessage)))
  return Buffer.concat(fields)
}

/** Without a message: all in one. */
export function trailersOnlyBlock(httpStatus: number, reply: GrpcReply): Buffer {
  return Buffer.concat([httpStatus === 200 ? STATUS_200 : field(STATUS_NAME, String(httpStatus)), CONTENT_TYPE, trailersBlock(reply)])
}

/** RFC 7541 6.2.2: a field that is not added to the table; its name by number or as it is. */
function field(name: number | string, value: string): Buffer {
  const head = typeof name === 'number' ? integer(0, 4, name) : [0, ...integer(0, 7, name.length), ...Buffer.from(name, 'latin1')]
  return Buffer.from([...head, ...integer(0, 7, value.length), ...Buffer.from(value, 'latin1')])
}

function integer(first: number, prefixBits: number, value: number): number[] {
  const max = (1 << prefixBits) - 1
  if (value < max) return [first | value]
  const bytes = [first | max]
  let rest = value - max
  for (; rest >= 0x80; rest >>= 7) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
  return bytes
}
