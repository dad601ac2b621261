import { newWrongSecretsBuffer } from '../admin/wrong-secrets.ts'
import { newRevokedBuffer } from '../decide/revoked-sessions.ts'
import { newOpenReservationsBuffer } from '../engine/open-reservations.ts'
import { newSharesBuffer } from '../listen/connection-shares.ts'
import { newSlotsBuffer } from '../listen/connection-slots.ts'
import { newBodyMemoryBuffer } from '../proxy/body-memory.ts'
import type { ReservationMemory } from '../reservations/reservation-memory.ts'
import { newMetricBuffer } from '../telemetry/metrics/metric-memory.ts'

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
  /** What requests in flight have reserved, by worker. */
  readonly openReservations: SharedArrayBuffer
  readonly connectionSlots: SharedArrayBuffer
  readonly revokedSessions: SharedArrayBuffer
  /** Of operators. Apart from debug sessions, which end much sooner. */
  readonly revokedAdminSessions: SharedArrayBuffer
  readonly wrongSecrets: SharedArrayBuffer
  readonly wrongTokens: SharedArrayBuffer
  /** The one word that says whether anybody watches events. */
  readonly eventWatch: SharedArrayBuffer
  readonly reservations: ReservationMemory
}

export function newSharedMemory(
  table: SharedArrayBuffer,
  hashKey: readonly [number, number],
  workers: number,
  reservations: ReservationMemory,
): SharedMemory {
  return {
    table,
    hashKey,
    plan: new SharedArrayBuffer(4),
    metrics: newMetricBuffer(workers + 1),
    connections: newSharesBuffer(workers),
    bodies: newBodyMemoryBuffer(workers),
    openReservations: newOpenReservationsBuffer(workers),
    connectionSlots: newSlotsBuffer(workers),
    revokedSessions: newRevokedBuffer(),
    revokedAdminSessions: newRevokedBuffer(),
    wrongSecrets: newWrongSecretsBuffer(),
    wrongTokens: newWrongSecretsBuffer(),
    eventWatch: new SharedArrayBuffer(4),
    reservations,
  }
}

/** The thread that supervises counts as worker 0. In locks, 0 means that nobody holds them. */
export const SUPERVISOR = 0

export function ownerNumber(worker: number): number {
  return worker + 1
}
