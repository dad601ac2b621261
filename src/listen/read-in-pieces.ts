import type { Socket } from 'node:net'
import type { TimeShare } from '../time-share.ts'

export interface ParsingLimits {
  /** Of one connection at a time. */
  readonly bytes: number
  /** What parsing may take of the thread's time, all connections together. */
  readonly share: TimeShare
}

/**
 * To be called on a connection that Node's server has been given. Node parses all that it reads, 64 KiB, in one go: some 1,800 small
 * requests, while nothing else has its turn. From now on it gets so many bytes at a time, one piece a turn, and none while the
 * connection is paused or parsing has taken its share of the thread's time. A piece may be thousands of fields or chunks of a byte.
 */
export function readInPieces(socket: Socket, { bytes, share }: ParsingLimits): void {
  const push = socket.push.bind(socket)
  const read = socket._read.bind(socket)
  /** Read, and not parsed yet. While there is some, nothing more is read. */
  let rest: Buffer | undefined
  let isScheduled = false
  const parsePiece = (chunk: Buffer): boolean => {
    rest = chunk.length > bytes ? chunk.subarray(bytes) : undefined
    const startMs = performance.now()
    const wantsMore = push(chunk.subarray(0, bytes))
    const endMs = performance.now()
    share.spend(endMs - startMs, endMs)
    return wantsMore && rest === undefined
  }
  const parseRest = (): void => {
    isScheduled = false
    if (rest === undefined || socket.isPaused() || socket.destroyed) return
    if (share.waitMs(performance.now()) > 0) schedule()
    else parsePiece(rest)
  }
  const schedule = (): void => {
    if (rest === undefined || isScheduled) return
    isScheduled = true
    const waitMs = share.waitMs(performance.now())
    if (waitMs === 0) setImmediate(parseRest)
    else setTimeout(parseRest, waitMs).unref()
  }
  const take = (chunk: Buffer): boolean => {
    if (share.waitMs(performance.now()) === 0) return parsePiece(chunk)
    rest = chunk
    schedule()
    return false
  }
  socket.push = (chunk: Buffer | null) => (chunk === null ? push(null) : take(chunk))
  socket._read = (size) => (rest === undefined ? read(size) : schedule())
  socket.on('resume', schedule)
  // With somebody else listening, Node parses what the stream gives out, not what the handle reads.
  socket.on('data', () => {})
}
