import type { AddressInfo, Server } from 'node:net'
import type { ListenAddress, ListenTarget } from './listen-address.ts'

/** Done when the server accepts connections; rejects where it cannot. What fails later goes to `onAcceptError`. */
export function listenOn(server: Server, target: ListenTarget, onAcceptError: (error: Error) => void): Promise<ListenAddress> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(target, () => {
      server.off('error', reject)
      server.on('error', onAcceptError)
      const { address, port } = server.address() as AddressInfo
      resolve({ host: address, port })
    })
  })
}
