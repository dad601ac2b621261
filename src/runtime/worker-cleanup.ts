import { RevokedSessions } from '../decide/revoked-sessions.ts'
import { forgetOpenReservations } from '../engine/open-reservations.ts'
import { ConnectionShares } from '../listen/connection-shares.ts'
import { forgetSlots } from '../listen/connection-slots.ts'
import { forgetBodies } from '../proxy/body-memory.ts'
import { SharedTable } from '../store/shared-table.ts'
import { CATALOGUE, METRIC_NAMES } from '../telemetry/metrics/catalogue.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { ownerNumber, type SharedMemory, SUPERVISOR } from './shared-memory.ts'

const GAUGES = METRIC_NAMES.filter((name) => CATALOGUE[name].type === 'gauge')

/** Puts the shared memory in order after a thread died in the middle of something. What it counted stays counted. */
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

  /** Returns how many counters' locks it held. */
  cleanUp(worker: number): number {
    this.#metrics.forgetWorker(worker, GAUGES)
    for (const sessions of this.#revokedSessions) sessions.forgetWorker(ownerNumber(worker))
    this.#shares.forgetWorker(worker)
    forgetBodies(this.#memory.bodies, worker)
    forgetOpenReservations(this.#memory.openReservations, worker)
    forgetSlots(this.#memory.connectionSlots, worker)
    return this.#table.freeLocksOf(ownerNumber(worker))
  }
}
