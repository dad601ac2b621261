import { createServer, type Server } from 'node:net'

/** Below the ports that the kernel lends to clients: one that a stopped server leaves free is still free when it comes back. */
const LOWEST = 10_000
const HIGHEST = 30_000

/** Kept for as long as this process runs, so that no other test of this machine is given the same port while its server is down. */
const reservations: Server[] = []

/** A loopback port where nobody listens, for a server that must find it again after a restart. */
export async function serverPort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST))
    // First, or the look itself would be in the way of a server that comes back.
    const reservation = await reserve(port)
    if (reservation === undefined) continue
    if (await isFree(port)) {
      reservations.push(reservation)
      return port
    }
    reservation.close()
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = await listening({ port, host: '127.0.0.1' })
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)))
  return server !== undefined
}

/** A socket with a name and no file, which Linux has: it goes with its process, however that ends. */
async function reserve(port: number): Promise<Server | undefined> {
  return process.platform === 'linux' ? listening({ path: `\0edge-test-port-${port}` }) : createServer()
}

/** Undefined: somebody else does. */
function listening(on: { port: number; host: string } | { path: string }): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer().unref()
    server.once('error', () => resolve(undefined))
    server.listen(on, () => resolve(server))
  })
}
