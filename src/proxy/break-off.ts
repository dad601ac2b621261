import type { Socket } from 'node:net'

/** Breaks a connection off by a reset, so that nobody takes half a response for a whole one. Unix sockets know no reset: there it is closed. */
export function breakOff(socket: Socket): void {
  if (socket.remoteAddress === undefined) socket.destroy()
  else socket.resetAndDestroy()
}
