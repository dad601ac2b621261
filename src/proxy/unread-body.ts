import type { IncomingMessage, ServerResponse } from 'node:http'

/** How long a client may go on with a body that nobody reads before its connection is cut. */
export const LINGER_MS = 5000

/**
 * To be called when an answer is on its way out before its request has come whole. The rest stands between this answer and the next, and
 * closing on it would reset the client before it has read the answer (RFC 9112 9.6): so it is read and thrown away, for a while.
 * `stallMs` bounds a client that does not take the answer either; 0: no bound.
 */
export function dropRest(req: IncomingMessage, res: ServerResponse, stallMs: number): void {
  if (req.complete) return
  const { socket } = req
  const cut = (): void => void socket.destroy()
  let timer = stallMs > 0 ? setTimeout(cut, stallMs) : undefined
  // Behind an answer that is the last on its connection Node would close at once: for now only our side ends.
  socket.destroySoon = () => void socket.end()
  const stop = (): void => {
    clearTimeout(timer)
    res.off('finish', onSent)
    req.off('end', onWhole).off('close', stop)
    Reflect.deleteProperty(socket, 'destroySoon')
  }
  const onSent = (): void => {
    clearTimeout(timer)
    timer = setTimeout(cut, LINGER_MS)
  }
  const onWhole = (): void => {
    stop()
    if (socket.writableEnded) socket.destroySoon()
  }
  res.once('finish', onSent)
  req.once('end', onWhole).once('close', stop).resume()
}
