import type { ServerConfig } from '../config/config.ts'
import type { ConnectionKind } from './connection-places.ts'

/** Standard streams, event loops, listening sockets, the bundle, state and IP files, and the child that copies listening sockets. */
const BASE_RESERVE = 40
/** Event loop, listening sockets, and connections that are being turned away. */
const WORKER_RESERVE = 20
/** To the nodes of a cluster, by worker. */
const REDIS_CONNECTIONS = 16
const LEAST_ADMIN_CONNECTIONS = 16
const MOST_ADMIN_CONNECTIONS = 256
/** However low the limit is: below this it is no service. */
const LEAST_CONNECTIONS = 8

/** How many connections of each kind the limit of open files has room for, with a reserve for all else that needs one. */
export function connectionLimits(
  descriptors: number,
  { workers, mode, redis, backendMaxConnections }: Pick<ServerConfig, 'workers' | 'mode' | 'redis' | 'backendMaxConnections'>,
): Record<ConnectionKind, number> {
  const perWorker = WORKER_RESERVE + (redis === undefined ? 0 : REDIS_CONNECTIONS)
  const admin = Math.min(Math.max(Math.floor(descriptors / 64), LEAST_ADMIN_CONNECTIONS), MOST_ADMIN_CONNECTIONS)
  const reserve = BASE_RESERVE + perWorker * workers + admin
  const free = Math.min(Math.max(descriptors - reserve, LEAST_CONNECTIONS), MOST)
  if (mode === 'decision_service') return { main: free, admin, backend: 0 }
  // Each client that is let in can have a connection to the backend.
  const backend = Math.min(backendMaxConnections ?? free, Math.floor(free / 2))
  return { main: free - backend, admin, backend }
}

/** Counts must fit into 32 bits. */
const MOST = 2 ** 30
