import { Socket, type SocketConstructorOpts } from 'node:net'
import { newReadBuffer, releaseRead } from '../memory/buffers.ts'

/** Larger than what a gateway has on its way at a time. Longer texts come in several reads. */
const BUFFER_BYTES = 64 * 1024

/** What the last read brought, up to the length that is told with it. The next read, of whatever connection, overwrites it. */
export const READ_BUFFER = newReadBuffer(BUFFER_BYTES)

/** What `node:net` keeps the `onread` option of a socket in. */
interface OnRead {
  readonly buffer: symbol
  readonly callback: symbol
  readonly newBuffer: symbol
}

/**
 * Has an accepted socket read into READ_BUFFER, with no buffer, stream event or copy for each read. `node:net` offers that to sockets
 * that connect (the option `onread`), but not to those that a server accepts; so the option is set here, where this version of Node
 * keeps it. Returns how to end it: from then on bytes come as 'data' again. Returns undefined, and changes nothing, where Node keeps it
 * elsewhere.
 */
export function shareReads(socket: Socket, onRead: (length: number) => void): (() => void) | undefined {
  const { _handle: handle } = socket as { _handle?: { useUserBuffer?: (buffer: Uint8Array) => void } | null }
  if (ON_READ === undefined || typeof handle?.useUserBuffer !== 'function') return undefined
  let isShared = true
  const read = (length: number): boolean => {
    // False: the stream wants no more for now.
    if (!isShared) return socket.push(Buffer.from(READ_BUFFER.subarray(0, length)))
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

/** Copies bytes that lie in the shared buffer. Others are not copied: doing so for each request of a long pipeline would be quadratic work. */
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
