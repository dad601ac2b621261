import { newPlacesBuffer } from '../server/connection-places.ts'
import { newSharesBuffer } from '../server/connection-shares.ts'
import { newMetricBuffer } from '../server/metrics/metric-memory.ts'
import { newBodyMemoryBuffer } from '../server/proxy/body-memory.ts'
import { newRevokedBuffer } from '../server/revoked-sessions.ts'
import { newWrongSecretsBuffer } from '../server/wrong-secrets.ts'

/** Everything that the threads of one process have in common. */
export interface SharedMemory {
  readonly table: SharedArrayBuffer
  /** Of the hash that names counters: unknown to callers, so that they cannot aim at one another's. */
  readonly hashKey: readonly [number, number]
  /** The one word that says which plan holds. */
  readonly plan: SharedArrayBuffer
  readonly metrics: SharedArrayBuffer
  readonly connections: SharedArrayBuffer
  /** What request bodies hold, by worker. */
  readonly bodies: SharedArrayBuffer
  readonly places: SharedArrayBuffer
  readonly revokedSessions: SharedArrayBuffer
  readonly wrongSecrets: SharedArrayBuffer
}

export function newSharedMemory(table: SharedArrayBuffer, hashKey: readonly [number, number], workers: number): SharedMemory {
  return {
    table,
    hashKey,
    plan: new SharedArrayBuffer(4),
    metrics: newMetricBuffer(workers + 1),
    connections: newSharesBuffer(workers),
    bodies: newBodyMemoryBuffer(workers),
    places: newPlacesBuffer(workers),
    revokedSessions: newRevokedBuffer(),
    wrongSecrets: newWrongSecretsBuffer(),
  }
}

/** The thread that supervises counts as worker 0. In locks, 0 means that nobody holds them. */
export const SUPERVISOR = 0

export function ownerNumber(worker: number): number {
  return worker + 1
}
