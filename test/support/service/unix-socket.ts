import { join } from 'node:path'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { ask, type Place } from './http.ts'
import { type Owner, scratchDirectory, thisTest } from './running.ts'

export const BURST = 3
/** `BURST` decisions for each key. */
export const SOCKET_BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-api-key'], BURST, 0.001)] }))

/** Of a socket in a directory of its own. */
export async function socketPath(owner: Owner = thisTest, name = 'edge.sock'): Promise<string> {
  return join(await scratchDirectory(owner), name)
}

/** The status of a decision, always for the same key. */
export async function decideAt(place: Place): Promise<number> {
  const fields = [
    ['X-Original-Method', 'GET'],
    ['X-Original-URI', '/'],
    ['X-Api-Key', 'alice'],
  ] as const
  return (await ask(place, 'POST', '/v1/decision', fields)).status
}
