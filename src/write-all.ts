import type { Socket } from 'node:net'
import { byteText } from './byte-text.ts'

/** Node copies shorter texts before it writes them, to where no memory is allocated. */
const MAX_TEXT_BYTES = 16 * 1024

/** Larger pieces are copied to it: there is room for a whole read and what is around it. It is used again as soon as the system has taken them. */
let staging = Buffer.allocUnsafeSlow(72 * 1024)

/**
 * Writes a text of bytes, then bytes or another such text, then one more, in one write. The bytes are the caller's again when this returns, whatever
 * the system has taken of them. Returns false when the socket wants no more for now.
 */
export function writeAll(socket: Socket, before: string, bytes: Buffer | string, behind: string): boolean {
  const length = before.length + bytes.length + behind.length
  if (length <= MAX_TEXT_BYTES) return socket.write(before + byteText(bytes) + behind, 'latin1')
  const isStaged = length <= staging.length && socket.writableLength === 0
  const copy = isStaged ? staging : Buffer.allocUnsafeSlow(length)
  copy.write(before, 0, 'latin1')
  if (typeof bytes === 'string') copy.write(bytes, before.length, 'latin1')
  else bytes.copy(copy, before.length)
  copy.write(behind, before.length + bytes.length, 'latin1')
  const hasRoom = socket.write(copy.length === length ? copy : copy.subarray(0, length))
  if (isStaged && socket.writableLength > 0) staging = Buffer.allocUnsafeSlow(staging.length)
  return hasRoom
}
