import type { Owner } from '../service/running.ts'
import { BundleServer } from './bundle-server.ts'
import { known } from './bundle-url.ts'

interface SilentServer {
  readonly server: BundleServer
  /** Whoever has asked gets the bundle, and whoever asks from now on: on a busy machine the first fetch may have been given up. */
  readonly answer: () => void
}

/** A server of bundles that takes its time. */
export async function silentServer(t: Owner): Promise<SilentServer> {
  const server = await BundleServer.start(t)
  const waiting: (() => void)[] = []
  let isAnswering = false
  server.respond = (_req, res) => {
    const respond = (): void => void res.writeHead(200, { 'Content-Type': 'application/json' }).end(known(1))
    if (isAnswering) respond()
    else waiting.push(respond)
  }
  const answer = (): void => {
    isAnswering = true
    for (const respond of waiting.splice(0)) respond()
  }
  return { server, answer }
}
