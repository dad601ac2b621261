import type { AddressInfo, Server, Socket } from 'node:net'
import type { ListenTarget, PortAddress } from './listeners.ts'

/**
 * Done when the server accepts connections; rejects where it cannot. What fails later goes to `onAcceptError`. Returns the address of a
 * port, which the system may have chosen; undefined for a unix socket, whose path a server that was given its descriptor does not know.
 */
export function listenOn(server: Server, target: ListenTarget, onAcceptError: (error: Error) => void): Promise<PortAddress | undefined> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(target, () => {
      server.off('error', reject)
      server.on('error', onAcceptError)
      const bound = server.address() as AddressInfo | null
      resolve(bound === null ? undefined : { host: bound.address, port: bound.port })
    })
  })
}

/**
 * Puts `accept` in the place of what Node does with a new connection, and returns that. The server that listens is the one that
 * connections are given to, so Node goes on to time, count and close them.
 */
export function takeConnections(server: Server, accept: (socket: Socket) => void): (socket: Socket) => void {
  const [toNode, ...others] = server.listeners('connection') as ((this: Server, socket: Socket) => void)[]
  if (toNode === undefined || others.length > 0) throw new Error('expected a server with the one connection listener that Node gives it')
  server.off('connection', toNode)
  server.on('connection', accept)
  return (socket) => toNode.call(server, socket)
}
