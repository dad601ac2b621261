import { Socket, type SocketConstructorOpts } from 'node:net'
import { newReadBuffer, releaseRead } from '../memory/read-buffers.ts'

/** More than a gateway usually has in flight at a time. Longer input comes in several reads. */
const BUFFER_BYTES = 64 * 1024

/** Holds the bytes of the last read, up to the length passed to `onRead`. The next read of any connection overwrites them. */
export const READ_BUFFER = newReadBuffer(BUFFER_BYTES)

/** The symbols under which `node:net` keeps a socket's `onread` option. */
interface OnRead {
  readonly buffer: symbol
  readonly callback: symbol
  readonly newBuffer: symbol
}

/**
 * Makes an accepted socket read into READ_BUFFER, without a buffer, stream event or copy for each read. `node:net` offers this to sockets
 * that connect (the option `onread`), but not to those that a server accepts, so the option is set here where this version of Node keeps it.
 * Returns a function that ends sharing, after which bytes come as 'data' events again. Returns undefined, and changes nothing, if Node
 * keeps the option elsewhere.
 */
export function shareReads(socket: Socket, onRead: (length: number) => void): (() => void) | undefined {
  const { _handle: handle } = socket as { _handle?: { useUserBuffer?: (buffer: Uint8Array) => void } | null }
  if (ON_READ === undefined || typeof handle?.useUserBuffer !== 'function') return undefined
  let isShared = true
  const read = (length: number): boolean => {
    // A secured socket decrypts all that has arrived, even if it was paused by the first part. What comes then, or behind bytes that were put
    // back, must wait in the stream. `push` returns false if the stream wants no more for now.
    if (!isShared || socket.isPaused() || socket.readableLength > 0) return socket.push(Buffer.from(READ_BUFFER.subarray(0, length)))
    onRead(length)
    releaseRead(READ_BUFFER, length)
    return true
  }
  Object.assign(socket, { [ON_READ.buffer]: READ_BUFFER, [ON_READ.callback]: read, [ON_READ.newBuffer]: null })
  handle.useUserBuffer(READ_BUFFER)
  return () => {
    isShared = false
  }
}

/** Copies bytes that lie in the shared buffer. Other bytes are not copied, which would be quadratic work for the requests of a long pipeline. */
export function unshared(bytes: Buffer): Buffer {
  return bytes.buffer === READ_BUFFER.buffer ? Buffer.from(bytes) : bytes
}

const ON_READ = findOnRead()

function findOnRead(): OnRead | undefined {
  const onread = { buffer: new Uint8Array(1), callback: () => true }
  const options: SocketConstructorOpts & { onread: typeof onread } = { onread }
  const probe = new Socket(options)
  const symbols = Object.getOwnPropertySymbols(probe)
  const named = (name: string): symbol | undefined => symbols.find(({ description }) => description === name)
  const buffer = named('kBuffer')
  const callback = named('kBufferCb')
  const newBuffer = named('kBufferGen')
  return buffer && callback && newBuffer && { buffer, callback, newBuffer }
}
