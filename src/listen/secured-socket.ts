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

/** Resets a connection, so that nobody takes half a response for a whole one. Unix sockets have no reset, so they are closed. */
export function resetConnection(socket: Socket): void {
  if (socket.remoteAddress === undefined) return void socket.destroy()
  if (!isSecured(socket)) return void socket.resetAndDestroy()
  rawSocketOf(socket).resetAndDestroy()
  socket.destroy()
}
