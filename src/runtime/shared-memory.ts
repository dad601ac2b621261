import type { KeyMemory } from '../callers/keys/key-memory.ts'
import { forgetOpenReservations, newOpenReservationsBuffer } from '../engine/open-reservations.ts'
import { ConnectionShares, forgetSlots, newSharesBuffer, newSlotsBuffer } from '../listen/connection-slots.ts'
import { forgetBackends, newBackendsBuffer } from '../proxy/backends/backend-slots.ts'
import { forgetBodies, newBodyMemoryBuffer } from '../proxy/body/body-memory.ts'
import type { ReservationMemory } from '../reservations/reservation-numbers.ts'
import { newRevokedBuffer, RevokedSessions } from '../sessions/revoked-sessions.ts'
import { newWrongSecretsBuffer } from '../sessions/wrong-secrets.ts'
import { SharedTable } from '../store/table/shared-table.ts'
import { CATALOGUE, METRIC_NAMES } from '../telemetry/metrics/catalogue.ts'
import { type MetricMemory, newMetricBuffer } from '../telemetry/metrics/metric-memory.ts'

/** Everything that the threads of one process have in common. */
export interface SharedMemory {
  readonly table: SharedArrayBuffer
  /** Key of the hash that identifies counters. Callers do not know it, so they cannot craft values that collide with another caller's counter. */
  readonly hashKey: readonly [number, number]
  /** One 32-bit integer: the generation of the active plan. */
  readonly plan: SharedArrayBuffer
  readonly metrics: SharedArrayBuffer
  readonly connections: SharedArrayBuffer
  /** Bytes that request bodies occupy, by worker. */
  readonly bodies: SharedArrayBuffer
  /** Amounts that requests in flight have reserved, by worker. */
  readonly openReservations: SharedArrayBuffer
  readonly connectionSlots: SharedArrayBuffer
  /** Connections and health of each backend of the bundle. */
  readonly backends: SharedArrayBuffer
  readonly revokedSessions: SharedArrayBuffer
  /** Operators' sessions, kept apart from debug sessions, which end much sooner. */
  readonly revokedAdminSessions: SharedArrayBuffer
  readonly wrongSecrets: SharedArrayBuffer
  readonly wrongTokens: SharedArrayBuffer
  /** One 32-bit integer: whether anybody watches events. */
  readonly eventWatch: SharedArrayBuffer
  readonly reservations: ReservationMemory
  readonly keys: KeyMemory
}

export function newSharedMemory(
  table: SharedArrayBuffer,
  hashKey: readonly [number, number],
  workers: number,
  reservations: ReservationMemory,
  keys: KeyMemory,
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
    backends: newBackendsBuffer(workers),
    revokedSessions: newRevokedBuffer(),
    revokedAdminSessions: newRevokedBuffer(),
    wrongSecrets: newWrongSecretsBuffer(),
    wrongTokens: newWrongSecretsBuffer(),
    eventWatch: new SharedArrayBuffer(4),
    reservations,
    keys,
  }
}

/** The supervising thread counts as worker 0. Lock words store the number plus one, because 0 there means that the lock is free. */
export const SUPERVISOR = 0

export function ownerNumber(worker: number): number {
  return worker + 1
}

const GAUGES = METRIC_NAMES.filter((name) => CATALOGUE[name].type === 'gauge')

/** Repairs the shared memory after a thread died in mid-operation. Counts that it made stay. */
export class WorkerCleanup {
  readonly #table: SharedTable
  readonly #metrics: MetricMemory
  readonly #revokedSessions: readonly RevokedSessions[]
  readonly #shares: ConnectionShares
  readonly #memory: SharedMemory

  constructor(memory: SharedMemory, metrics: MetricMemory) {
    const owner = ownerNumber(SUPERVISOR)
    this.#table = new SharedTable(memory.table, owner)
    this.#metrics = metrics
    const { revokedSessions, revokedAdminSessions } = memory
    this.#revokedSessions = [revokedSessions, revokedAdminSessions].map((buffer) => new RevokedSessions(buffer, owner))
    this.#shares = new ConnectionShares(memory.connections, SUPERVISOR)
    this.#memory = memory
  }

  /** Returns how many counter locks the worker still held. */
  cleanUp(worker: number): number {
    this.#metrics.forgetWorker(worker, GAUGES)
    for (const sessions of this.#revokedSessions) sessions.forgetWorker(ownerNumber(worker))
    this.#shares.forgetWorker(worker)
    forgetBodies(this.#memory.bodies, worker)
    forgetOpenReservations(this.#memory.openReservations, worker)
    forgetSlots(this.#memory.connectionSlots, worker)
    forgetBackends(this.#memory.backends, worker)
    return this.#table.freeLocksOf(ownerNumber(worker))
  }
}
