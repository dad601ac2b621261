import type { AddressInfo, Server, Socket } from 'node:net'
import type { ListenTarget, PortAddress } from './listeners.ts'

/** Connections that wait to be accepted, if the system allows so many: what it turns away beside a flood comes again after 1, 3 and 7 s. */
const BACKLOG = 4096

/**
 * Resolves when the server accepts connections, and rejects if it cannot; later failures go to `onAcceptError`. Returns the address of a port,
 * which the system may have chosen. For a unix socket it returns undefined, since a server that got only a descriptor does not know the path.
 */
export function listenOn(server: Server, target: ListenTarget, onAcceptError: (error: Error) => void): Promise<PortAddress | undefined> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(target, BACKLOG, () => {
      server.off('error', reject)
      server.on('error', onAcceptError)
      const bound = server.address() as AddressInfo | null
      resolve(bound === null ? undefined : { host: bound.address, port: bound.port })
    })
  })
}

/**
 * Replaces Node's handling of new connections by `accept`, and returns Node's handler. Connections that it gets belong to the server that
 * listens, so Node still times, counts and closes them.
 */
export function takeConnections(server: Server, accept: (socket: Socket) => void): (socket: Socket) => void {
  const [toNode, ...others] = server.listeners('connection') as ((this: Server, socket: Socket) => void)[]
  if (toNode === undefined || others.length > 0) throw new Error('expected a server with the one connection listener that Node gives it')
  server.off('connection', toNode)
  server.on('connection', accept)
  return (socket) => toNode.call(server, socket)
}
