import type { Socket } from 'node:net'

/**
 * To be called on a connection that Node's server has been given. Node parses all that it reads, 64 KiB, in one go: some 1,800 small
 * requests, while nothing else has its turn. From now on it gets so many bytes at a time, one piece a turn, and none while the
 * connection is paused.
 */
export function readInPieces(socket: Socket, bytes: number): void {
  const push = socket.push.bind(socket)
  const read = socket._read.bind(socket)
  /** Read, and not parsed yet. While there is some, nothing more is read. */
  let rest: Buffer | undefined
  let isScheduled = false
  const pushPiece = (chunk: Buffer): boolean => {
    rest = chunk.length > bytes ? chunk.subarray(bytes) : undefined
    return push(chunk.subarray(0, bytes)) && rest === undefined
  }
  const schedule = (): void => {
    if (rest === undefined || isScheduled) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      if (rest !== undefined && !socket.isPaused() && !socket.destroyed) pushPiece(rest)
    })
  }
  socket.push = (chunk: Buffer | null) => (chunk === null ? push(null) : pushPiece(chunk))
  socket._read = (size) => (rest === undefined ? read(size) : schedule())
  socket.on('resume', schedule)
  // With somebody else listening, Node parses what the stream gives out, not what the handle reads.
  socket.on('data', () => {})
}
