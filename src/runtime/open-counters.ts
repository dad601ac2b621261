import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import type { SavedReservations } from '../reservations/reservation-memory.ts'
import { SharedTable } from '../store/shared-table.ts'
import type { StateFile } from '../store/state/state-file.ts'
import type { StateLock } from '../store/state/state-lock.ts'
import { newTableBuffer } from '../store/table-layout.ts'
import { ownerNumber, SUPERVISOR } from './shared-memory.ts'

export interface Counters {
  readonly buffer: SharedArrayBuffer
  readonly hashKey: readonly [number, number]
  readonly table: SharedTable
  /** Where they are kept over a restart, and the right to do so. */
  readonly kept: { readonly file: StateFile; readonly lock: StateLock } | undefined
  /** What was saved of reservations. */
  readonly reservations: SavedReservations | undefined
  /** Payloads of what was saved of overrides. */
  readonly overrides: readonly Buffer[]
}

/** The table that all threads share, with what was saved of it last time. Throws where the state file cannot be used. */
export async function openCounters(bytes: number, statePath: string | undefined, clock: Clock, logger: Logger): Promise<Counters> {
  const buffer = newTableBuffer(bytes)
  const table = new SharedTable(buffer, ownerNumber(SUPERVISOR))
  if (statePath === undefined) return { buffer, table, hashKey: newHashKey(), kept: undefined, reservations: undefined, overrides: [] }
  // Twenty modules that a start without a state file does not wait for.
  const { openStateFile } = await import('./open-state-file.ts')
  const { lock, file, ...saved } = await openStateFile(statePath, { table, hashKey: newHashKey() }, clock, logger)
  return { buffer, table, ...saved, kept: { lock, file } }
}

function newHashKey(): [number, number] {
  const key = randomBytes(8)
  return [key.readInt32LE(0), key.readInt32LE(4)]
}
