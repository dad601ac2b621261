import type { Owner } from '../service/running.ts'
import { BundleServer } from './bundle-server.ts'
import { known } from './bundle-url.ts'

interface SilentServer {
  readonly server: BundleServer
  /** Whoever has asked gets the bundle. */
  readonly answer: () => void
}

/** A server of bundles that takes its time. */
export async function silentServer(t: Owner): Promise<SilentServer> {
  const server = await BundleServer.start(t)
  const waiting: (() => void)[] = []
  server.respond = (_req, res) => {
    waiting.push(() => res.writeHead(200, { 'Content-Type': 'application/json' }).end(known(1)))
  }
  const answer = (): void => {
    for (const respond of waiting.splice(0)) respond()
  }
  return { server, answer }
}
