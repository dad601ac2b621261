import type { Socket } from 'node:net'
import { unshared } from '../../listen/shared-reads.ts'

/** Has a socket that is handed over bring what was read of it once more, before all that is still to be read. */
export function giveBack(socket: Socket, bytes: Buffer, hasEnded: boolean): void {
  const own = unshared(bytes)
  if (!hasEnded) {
    if (own.length > 0) socket.unshift(own)
    return
  }
  // An ended stream accepts nothing back, so its events are emitted again.
  socket.emit('data', own)
  socket.emit('end')
}
