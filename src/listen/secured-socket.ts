import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'

/** Whether the client's connection is encrypted. */
export function isSecured(socket: Socket): socket is TLSSocket {
  return (socket as Partial<TLSSocket>).encrypted === true
}

/** Returns the socket that carries the encrypted bytes of a secured one. Node keeps it here. */
export function rawSocketOf(secured: TLSSocket): Socket {
  return (secured as unknown as { readonly _parent: Socket })._parent
}

/**
 * Makes a secured socket end as a plain one does. A plain one says FIN when it is destroyed, and this one that it closes (close_notify), without
 * which clients report an error for a connection that was only idle for too long. Nothing is said if something is unsent, or if an error or a
 * reset is the reason. And after a broken record Node leaves the connection open, where 'close' follows any other error.
 */
export function endLikePlain(secured: TLSSocket): void {
  const destroy = secured.destroy.bind(secured)
  secured.destroy = (error) => {
    // Both calls write at once, so the notice is on its way before the descriptor is closed.
    if (error === undefined && secured.writable && !rawSocketOf(secured).destroyed) secured.end()
    return destroy(error)
  }
  secured.on('error', destroy)
}

/** Resets a connection, so that nobody takes half a response for a whole one. Unix sockets have no reset, so they are closed. */
export function resetConnection(socket: Socket): void {
  if (socket.remoteAddress === undefined) return void socket.destroy()
  if (!isSecured(socket)) return void socket.resetAndDestroy()
  rawSocketOf(socket).resetAndDestroy()
  socket.destroy()
}
