import type { Socket } from 'node:net'

/** Larger than what is read at a time, with its head. */
const BUFFER_BYTES = 128 * 1024

/**
 * Writes what is too large for a text as a copy, in one piece, for its bytes are the caller's again right after. Nearly always the system takes all
 * of it at once, and then the memory of the copy serves the next.
 */
export class LargeWrites {
  #buffer: Buffer | undefined

  /** Returns what the socket's own `write` does. */
  write(socket: Socket, before: string, bytes: Buffer, after: string): boolean {
    const length = before.length + bytes.length + after.length
    const buffer = length > BUFFER_BYTES ? Buffer.allocUnsafeSlow(length) : (this.#buffer ?? Buffer.allocUnsafeSlow(BUFFER_BYTES))
    const bytesAt = buffer.write(before, 'latin1')
    bytes.copy(buffer, bytesAt)
    buffer.write(after, bytesAt + bytes.length, 'latin1')
    const hasRoom = socket.write(buffer.subarray(0, length))
    if (length <= BUFFER_BYTES) this.#buffer = socket.writableLength === 0 ? buffer : undefined
    return hasRoom
  }
}
