import { hostname } from 'node:os'
import { assetText } from '../../files/package-files.ts'
import type { StoreStats } from '../../store/counter-store.ts'
import { readQuery } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import type { Status } from '../api/instance-types.ts'
import type { BackendReport } from './backend-report.ts'

/** The part of the status that the main thread knows about the whole instance. */
export type InstanceStatus = Pick<
  Status,
  'uptime_s' | 'memory_bytes' | 'workers' | 'bundle' | 'state_file' | 'key_sets' | 'shadow_all' | 'problems'
>

export interface StatusParts {
  readonly version: string
  readonly mode: Status['mode']
  readonly storeStats: () => StoreStats
  /** Undefined if this process keeps its own counters. */
  readonly redis: (Pick<NonNullable<Status['redis']>, 'mode' | 'address'> & { readonly isConnected: () => boolean }) | undefined
  readonly instance: () => Promise<InstanceStatus>
  readonly backends: Pick<BackendReport, 'inShort' | 'problems'>
}

/** GET status. */
export function statusEndpoint({ version, mode, storeStats, redis, instance, backends }: StatusParts): ApiRoute {
  return {
    method: 'GET',
    path: 'status',
    handle: async ({ query, http }) => {
      readQuery(query, [])
      const { uptime_s, memory_bytes, workers, bundle, state_file, key_sets, shadow_all, problems } = await instance()
      const { slots, occupiedSlots } = storeStats()
      const json: Status = {
        // The admin port tells instances on one host apart, and Prometheus names them in the same way.
        instance: `${hostname()}:${http.socket.localPort}`,
        version,
        uptime_s,
        memory_bytes,
        mode,
        workers,
        bundle,
        store: { kind: redis === undefined ? 'embedded' : 'redis', slots, occupied: occupiedSlots },
        redis: redis === undefined ? null : { mode: redis.mode, address: redis.address, connected: redis.isConnected() },
        state_file,
        key_sets,
        backends: backends.inShort(),
        shadow_all,
        problems: [...problems, ...backends.problems()].sort((a, b) => Date.parse(a.since) - Date.parse(b.since)),
      }
      return { status: 200, json }
    },
  }
}

/** GET openapi.json: the description of this API. */
export function openapiEndpoint(): ApiRoute {
  let text: string | undefined
  return {
    method: 'GET',
    path: 'openapi.json',
    handle: ({ query }) => {
      readQuery(query, [])
      text ??= assetText('openapi/admin.json')
      return { status: 200, text }
    },
  }
}
