import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'

/** Node writes strings up to this length from its stack, without allocating memory. */
const MAX_TEXT_BYTES = 16 * 1024

/** Longer writes are copied to this buffer, which has room for a whole read and the texts around it. It is reused once the system has taken them. */
let staging = Buffer.allocUnsafeSlow(72 * 1024)

/**
 * Writes a latin1 string, then bytes or another latin1 string, then one more, in a single write. The caller may reuse the bytes when this
 * returns, however many of them the system has taken. Returns false if the socket wants no more for now.
 */
export function writeAll(socket: Socket, before: string, bytes: Buffer | string, behind: string): boolean {
  const length = before.length + bytes.length + behind.length
  if (typeof bytes !== 'string' && bytes.length === length && socket.writableLength === 0 && takesAtOnce(socket)) return socket.write(bytes)
  if (length <= MAX_TEXT_BYTES) return socket.write(before + byteText(bytes) + behind, 'latin1')
  const isStaged = length <= staging.length && socket.writableLength === 0
  const copy = isStaged ? staging : Buffer.allocUnsafeSlow(length)
  copy.write(before, 0, 'latin1')
  if (typeof bytes === 'string') copy.write(bytes, before.length, 'latin1')
  else bytes.copy(copy, before.length)
  copy.write(behind, before.length + bytes.length, 'latin1')
  const hasRoom = socket.write(copy.length === length ? copy : copy.subarray(0, length))
  if (isStaged && !hasTaken(socket)) staging = Buffer.allocUnsafeSlow(staging.length)
  return hasRoom
}

/** Whether nobody needs the bytes of the last write any more. */
function hasTaken(socket: Socket): boolean {
  return socket.writableLength === 0 || takesAtOnce(socket)
}

/** A secured socket that is open encrypts what is written at once, or copies it; it is reported as unsent until later. */
function takesAtOnce(socket: Socket): boolean {
  return (socket as Partial<TLSSocket>).encrypted === true && !socket.connecting && socket.writableCorked === 0
}

/** Returns bytes as a latin1 string. */
export function byteText(bytes: Buffer | string): string {
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}

/**
 * Copies a latin1 string to memory of its own, in one piece. In V8, a concatenated string is a tree of its pieces until it is read, and a
 * substring keeps the whole string in memory.
 */
export function flatText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
