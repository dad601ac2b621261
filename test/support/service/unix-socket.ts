import { linkSync } from 'node:fs'
import { createServer } from 'node:net'
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

/** Leaves the file of a socket there on which nobody listens, as a process does that is killed. */
export async function abandonSocket(path: string): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(`${path}.other`, resolve))
  linkSync(`${path}.other`, path)
  // Removes the name that it was given.
  await new Promise<void>((resolve) => void server.close(() => resolve()))
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
