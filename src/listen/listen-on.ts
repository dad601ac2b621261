import type { AddressInfo, Server } from 'node:net'
import type { ListenTarget, PortAddress } from './listen-address.ts'

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
