import { ConnectionShares } from '../server/connection-shares.ts'
import { CATALOGUE, METRIC_NAMES } from '../server/metrics/catalogue.ts'
import type { MetricMemory } from '../server/metrics/metric-memory.ts'
import { RevokedSessions } from '../server/revoked-sessions.ts'
import { SharedTable } from '../store/shared-table.ts'
import { ownerNumber, type SharedMemory, SUPERVISOR } from './shared-memory.ts'

const GAUGES = METRIC_NAMES.filter((name) => CATALOGUE[name].type === 'gauge')

/** Puts the shared memory in order after a thread died in the middle of something. What it counted stays counted. */
export class Undertaker {
  readonly #table: SharedTable
  readonly #metrics: MetricMemory
  readonly #revokedSessions: RevokedSessions
  readonly #shares: ConnectionShares

  constructor(memory: SharedMemory, metrics: MetricMemory) {
    const owner = ownerNumber(SUPERVISOR)
    this.#table = new SharedTable(memory.table, owner)
    this.#metrics = metrics
    this.#revokedSessions = new RevokedSessions(memory.revokedSessions, owner)
    this.#shares = new ConnectionShares(memory.connections, SUPERVISOR)
  }

  /** Answers how many counters' locks it held. */
  bury(worker: number): number {
    this.#metrics.bury(worker, GAUGES)
    this.#revokedSessions.bury(ownerNumber(worker))
    this.#shares.bury(worker)
    return this.#table.freeLocksOf(ownerNumber(worker))
  }
}
