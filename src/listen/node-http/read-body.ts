import type { IncomingMessage } from 'node:http'

/** A body that is too large is still read up to this size, so that the client gets the response and the connection stays usable. */
const MAX_DROPPED_BYTES = 1024 * 1024

/** Reads a small body. Returns 'gone' if the client left before its end. */
export function readWholeBody(req: IncomingMessage, maxBytes: number): Promise<Buffer | 'too_large' | 'gone'> {
  const { socket } = req
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let length = 0
    // If a client closes its side in the middle of a body, `node:http` assumes that it waits for its response, and we would wait forever.
    const onSocketEnd = (): void => {
      if (!req.complete) socket.destroy()
    }
    const finish = (body: Buffer | 'too_large' | 'gone'): void => {
      socket.off('end', onSocketEnd)
      resolve(body)
    }
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= maxBytes) chunks.push(chunk)
      else if (length > MAX_DROPPED_BYTES) finish('too_large')
    })
    req.once('end', () => finish(length <= maxBytes ? Buffer.concat(chunks) : 'too_large'))
    req.once('error', () => finish('gone'))
    req.once('close', () => finish('gone'))
    socket.once('end', onSocketEnd)
    if (socket.readableEnded) onSocketEnd()
  })
}
