import type { IncomingMessage } from 'node:http'

/** A body that is somewhat too large is read to its end, so that its response arrives and the connection can go on. */
const MAX_DROPPED_BYTES = 1024 * 1024

/** Reads a small body. 'gone': the client left before its end. */
export function readWholeBody(req: IncomingMessage, maxBytes: number): Promise<Buffer | 'too_large' | 'gone'> {
  const { socket } = req
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let length = 0
    // A client that closes its side in the middle would else be waited for: `node:http` takes it for one that waits for its response.
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
