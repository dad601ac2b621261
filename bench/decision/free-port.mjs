import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** For programs that cannot choose one themselves. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Until somebody listens there: on a port, or on a unix socket. Whoever should and has ended is noticed elsewhere. */
export async function listening(place) {
  for (let i = 0; i < 100; i++) {
    const socket = connect(typeof place === 'string' ? { path: place } : { port: place, host: '127.0.0.1' })
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return
    await sleep(50)
  }
  throw new Error(`nobody listens on ${place}`)
}
