import type { Socket } from 'node:net'

/** Joins two sockets until one of them is closed. The end of each side is passed on to the other, and an error closes both. */
export function tunnel(client: Socket, backend: Socket, onClosed: () => void): void {
  let open = 2
  const closed = (other: Socket): void => {
    other.destroy()
    if (--open === 0) onClosed()
  }
  // The 'close' that follows an error does everything that is needed.
  client.on('error', () => {}).on('close', () => closed(backend))
  backend.on('error', () => {}).on('close', () => closed(client))
  client.pipe(backend)
  backend.pipe(client)
}
