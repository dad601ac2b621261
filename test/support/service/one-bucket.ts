import { onTestFinished } from 'vitest'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { type ListeningServer, startServer } from './two-wires.ts'

export async function start(burst: number, hasFastWire = true): Promise<ListeningServer> {
  const limits = bundle(1, policy('p', { rules: [bucketRule('r', [], burst)] }))
  const server = await startServer(limits, { hasFastWire })
  onTestFinished(() => server.close())
  return server
}
