import type { ServerConfig } from '../config/config.ts'
import type { ConnectionKind } from './connection-slots.ts'
import { LISTENER_NAMES, listener, openListeners } from './listeners.ts'

/** Standard streams, event loops, listening sockets, the bundle, state and IP files, and the child that copies listening sockets. */
const BASE_RESERVE = 40
/** Event loop, listening sockets, and connections that are being turned away. */
const WORKER_RESERVE = 20
/** To the nodes of a cluster, by worker. */
const REDIS_CONNECTIONS = 16
const LEAST_RESERVED = 16
const MOST_RESERVED = 256
/** However low the limit is: below this it is no service. */
const LEAST_CONNECTIONS = 8

/** How many connections of each kind the limit of open files has room for, with a reserve for all else that needs one. */
export function connectionLimits(descriptors: number, config: ServerConfig): Readonly<Record<ConnectionKind, number>> {
  const reservedEach = Math.min(Math.max(Math.floor(descriptors / 64), LEAST_RESERVED), MOST_RESERVED)
  const reserved = LISTENER_NAMES.filter((name) => listener(name).connections === 'reserved')
  const shared = openListeners(config).filter((name) => !reserved.includes(name))
  const perWorker = WORKER_RESERVE + (config.redis === undefined ? 0 : REDIS_CONNECTIONS)
  const reserve = BASE_RESERVE + perWorker * config.workers + reservedEach * reserved.length
  const free = Math.min(Math.max(descriptors - reserve, LEAST_CONNECTIONS), MOST)
  // Each client that is let in can have a connection to the backend.
  const backend = config.mode === 'reverse_proxy' ? Math.min(config.backendMaxConnections ?? free, Math.floor(free / 2)) : 0
  const limits: Partial<Record<ConnectionKind, number>> = { backend }
  for (const name of LISTENER_NAMES) limits[name] = 0
  for (const name of reserved) limits[name] = reservedEach
  for (const name of shared) limits[name] = Math.floor((free - backend) / shared.length)
  return limits as Record<ConnectionKind, number>
}

/** Counts must fit into 32 bits. */
const MOST = 2 ** 30
