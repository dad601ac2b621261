import { vi } from 'vitest'
import type { Edge } from '../service/edge.ts'
import { type Environment, running } from '../service/running.ts'
import { ADMIN_ENV, ADMIN_TOKEN } from './admin-client.ts'

/** A service on which these bundles were published one after the other, and which commands ask. Undo with `vi.unstubAllEnvs`. */
export async function publishing(env: Environment, ...bundles: readonly (object | string)[]): Promise<Edge> {
  const edge = await running({ env: { ...ADMIN_ENV, ...env } })
  for (const each of bundles) await edge.publish(each)
  vi.stubEnv('EDGE_ADMIN_URL', `http://127.0.0.1:${edge.adminPort}`)
  vi.stubEnv('EDGE_ADMIN_TOKEN', ADMIN_TOKEN)
  return edge
}
