import type { ServerConfig } from '../../config/config.ts'
import type { StoreStats } from '../../store/counter-store.ts'
import type { ApiRoute } from './api-route.ts'
import { readQuery } from './query.ts'

/** What is known of the whole instance, as the response has it. */
export interface InstanceStatus {
  readonly uptime_s: number
  readonly workers: { readonly configured: number; readonly alive: number }
  readonly bundle: { readonly version: string; readonly hash: string; readonly applied_at: string; readonly policies: number } | null
  readonly state_file: { readonly path: string; readonly saved_at: string | null } | null
  /** The override that stops all enforcement. */
  readonly shadow_all: unknown
  readonly problems: readonly { readonly code: string; readonly message: string; readonly since: string }[]
}

export interface StatusParts {
  readonly version: string
  readonly mode: ServerConfig['mode']
  readonly storeStats: () => StoreStats
  /** Undefined where counters are in this process alone. */
  readonly redis: { readonly mode: string; readonly isConnected: () => boolean } | undefined
  readonly instance: () => Promise<InstanceStatus>
}

/** GET status */
export function statusEndpoint({ version, mode, storeStats, redis, instance }: StatusParts): ApiRoute {
  return {
    method: 'GET',
    path: 'status',
    handle: async ({ query }) => {
      readQuery(query, [])
      const { uptime_s, workers, bundle, state_file, shadow_all, problems } = await instance()
      const { slots, occupiedSlots } = storeStats()
      const json = {
        version,
        uptime_s,
        mode,
        workers,
        bundle,
        store: { kind: redis === undefined ? 'embedded' : 'redis', slots, occupied: occupiedSlots },
        redis: redis === undefined ? null : { mode: redis.mode, connected: redis.isConnected() },
        state_file,
        shadow_all,
        problems,
      }
      return { status: 200, json }
    },
  }
}
