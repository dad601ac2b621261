import { createServer } from 'node:net'

/** Below the ports that the kernel lends to clients: one that a stopped server leaves free is still free when it comes back. */
const LOWEST = 10_000
const HIGHEST = 30_000

/** A loopback port where nobody listens, for a server that must find it again after a restart. */
export async function serverPort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST))
    if (await isFree(port)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
