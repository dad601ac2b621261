import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import { SharedTable } from '../store/shared-table.ts'
import { setAside } from '../store/state/set-aside.ts'
import { StateFile } from '../store/state/state-file.ts'
import { acquireStateLock, type StateLock } from '../store/state/state-lock.ts'
import { readState, restoreInto, type SavedState, StateTooLarge } from '../store/state/state-read.ts'
import { newTableBuffer } from '../store/table-layout.ts'
import { ownerNumber, SUPERVISOR } from './shared-memory.ts'

/** As many as may be lost where the parts of the table are unevenly full. One that loses more is too small. */
const MAX_EVICTED_SHARE = 0.001

export interface Counters {
  readonly buffer: SharedArrayBuffer
  readonly hashKey: readonly [number, number]
  readonly table: SharedTable
  /** Where they are kept over a restart, and the right to do so. */
  readonly kept: { readonly file: StateFile; readonly lock: StateLock } | undefined
}

/** The table that all threads share, with what was saved of it last time. Throws where the state file cannot be used. */
export async function openCounters(bytes: number, statePath: string | undefined, clock: Clock, logger: Logger): Promise<Counters> {
  const buffer = newTableBuffer(bytes)
  const table = new SharedTable(buffer, ownerNumber(SUPERVISOR))
  if (statePath === undefined) return { buffer, table, hashKey: newHashKey(), kept: undefined }
  const lock = await acquireStateLock(statePath)
  try {
    const saved = await savedState(lock.statePath, clock, logger)
    if (saved !== undefined) await restoreSaved(table, saved, clock, logger)
    const hashKey = saved?.header.hashKey ?? newHashKey()
    const file = new StateFile({ path: lock.statePath, table, hashKey, clock, unknownSections: saved?.unknownSections })
    return { buffer, table, hashKey, kept: { lock, file } }
  } catch (error) {
    await lock.release()
    throw error
  }
}

function newHashKey(): [number, number] {
  const key = randomBytes(8)
  return [key.readInt32LE(0), key.readInt32LE(4)]
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
  logger.info({ event: 'state_loaded', path: saved.path, counters, saved_at: savedAt }, 'counters go on where they were saved')
  if (evicted > 0) {
    logger.warn({ event: 'state_evicted', path: saved.path, counters: evicted }, 'some counters found no room: raise EDGE_STORE_SIZE')
  }
}
