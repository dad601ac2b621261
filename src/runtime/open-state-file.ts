import type { Logger } from 'pino'
import type { SavedReservations } from '../reservations/reservation-numbers.ts'
import { giveBackOpen } from '../store/state/open-amounts.ts'
import { StateFile } from '../store/state/state-file.ts'
import { OPEN_AMOUNTS, OVERRIDES, RESERVATION_IDENTITY, SETTLED_RESERVATIONS } from '../store/state/state-format.ts'
import { acquireStateLock, type StateLock } from '../store/state/state-lock.ts'
import { readState, restoreInto, type SavedState, StateTooLarge, setAside } from '../store/state/state-read.ts'
import type { SharedTable } from '../store/table/shared-table.ts'
import type { Clock } from '../time/clock.ts'

/** Share of the saved counters that may be lost because sets of the table fill unevenly. If more are lost, the table is too small. */
const MAX_EVICTED_SHARE = 0.001

export interface OpenedState {
  readonly lock: StateLock
  readonly file: StateFile
  /** The saved key, or the new one if nothing was saved. */
  readonly hashKey: readonly [number, number]
  readonly reservations: SavedReservations | undefined
  /** Payloads of the saved override sections. */
  readonly overrides: readonly Buffer[]
}

interface NewCounters {
  readonly table: SharedTable
  readonly hashKey: readonly [number, number]
}

/** Locks the state file and fills the table with what was saved there. */
export async function openStateFile(path: string, { table, ...fresh }: NewCounters, clock: Clock, logger: Logger): Promise<OpenedState> {
  const lock = await acquireStateLock(path)
  try {
    const saved = await savedState(lock.statePath, clock, logger)
    if (saved !== undefined) await restoreSaved(table, saved, clock, logger)
    const hashKey = saved?.header.hashKey ?? fresh.hashKey
    const file = new StateFile({ path: lock.statePath, table, hashKey, clock, unknownSections: saved?.unknownSections })
    return { lock, file, hashKey, reservations: saved && reservationsIn(saved), overrides: saved?.payloads.get(OVERRIDES) ?? [] }
  } catch (error) {
    await lock.release()
    throw error
  }
}

function reservationsIn({ payloads }: SavedState): SavedReservations {
  return { identity: payloads.get(RESERVATION_IDENTITY)?.[0], blocks: payloads.get(SETTLED_RESERVATIONS) ?? [] }
}

async function savedState(path: string, clock: Clock, logger: Logger): Promise<SavedState | undefined> {
  const read = await readState(path, clock)
  if (read.kind === 'found') return read.state
  if (read.kind === 'none') {
    logger.info({ event: 'state_new', path }, 'there is no state file yet: all counters start full')
    return undefined
  }
  const keptAs = await setAside(path, clock.wallMs())
  const what = { event: 'state_set_aside', path, reason: read.reason, kept_as: keptAs }
  logger.warn(what, 'the state file cannot be used and was set aside: all counters start full')
  return undefined
}

async function restoreSaved(table: SharedTable, saved: SavedState, clock: Clock, logger: Logger): Promise<void> {
  const { counters, evicted } = await restoreInto(table, saved, clock)
  if (evicted > (counters + evicted) * MAX_EVICTED_SHARE) throw new StateTooLarge(saved.path, counters + evicted, evicted)
  const savedAt = new Date(saved.header.wallMs).toISOString()
  logger.info({ event: 'state_loaded', path: saved.path, counters, saved_at: savedAt }, 'counters were restored from the state file')
  const open = giveBackOpen(table, saved.payloads.get(OPEN_AMOUNTS) ?? [])
  if (open.counters > 0) {
    const { counters: of, tokens, keptTokens: kept_tokens, nanos, keptNanos: kept_nanos } = open
    logger.warn(
      { event: 'reservations_given_back', path: saved.path, counters: of, tokens, kept_tokens, nanos, kept_nanos },
      'the last run ended in the middle of requests: what they had reserved was given back, except for what they had been sent',
    )
  }
  if (evicted > 0) {
    logger.warn(
      { event: 'state_evicted', path: saved.path, counters: evicted },
      'some counters did not fit into the table: raise EDGE_STORE_SIZE',
    )
  }
}
