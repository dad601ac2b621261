import type { Server, Socket } from 'node:net'

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
