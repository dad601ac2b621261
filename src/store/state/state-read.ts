import { stat } from 'node:fs/promises'
import type { Clock } from '../../clock.ts'
import { type SharedTable, tableBytesFor } from '../shared-table.ts'
import { restore } from '../table-records.ts'
import { StateFault } from './state-fault.ts'
import { type StateHeader, TimeShift } from './state-format.ts'
import { Damage, scanState } from './state-scan.ts'

export type StateRead =
  | { readonly kind: 'none' }
  /** Not to be trusted; the reason completes the sentence "it is no good: …". */
  | { readonly kind: 'damaged'; readonly reason: string }
  | { readonly kind: 'found'; readonly state: SavedState }

/** A file that has been read through once and found whole. */
export interface SavedState {
  readonly path: string
  readonly header: StateHeader
  /** Counters in the file. */
  readonly counters: number
  /** Those of them that still mean something. */
  readonly live: number
}

export interface Restored {
  readonly counters: number
  /** Live counters for which their set had no room. */
  readonly evicted: number
}

/** More live counters than the table has room for. The file is as it was. */
export class StateTooLarge extends Error {
  /** A table of this size takes them and leaves as much room again, so that hardly any set overflows. */
  readonly enoughBytes: number

  constructor(path: string, live: number, homeless: number) {
    super(`${path} has ${live} live counters, and there is no room for ${homeless} of them`)
    this.enoughBytes = Math.ceil(tableBytesFor(live * 2) / MIB) * MIB
  }
}

const MIB = 1024 * 1024

/** Reads the file through and changes nothing. Throws a StateFault where it cannot be read at all. */
export async function readState(path: string, clock: Clock): Promise<StateRead> {
  try {
    const found = await stat(path)
    // A pipe would be waited on for ever, and a directory is not ours to move away.
    if (!found.isFile()) throw new Error('it is not a regular file')
    return { kind: 'found', state: await checkState(path, clock) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { kind: 'none' }
    if (error instanceof Damage) return { kind: 'damaged', reason: error.message }
    throw new StateFault(`cannot read ${path}`, error)
  }
}

/** Puts the live counters into a table that nobody uses yet. Throws StateTooLarge before anything is changed. */
export async function restoreInto(table: SharedTable, state: SavedState, clock: Clock): Promise<Restored> {
  if (state.live > table.slotCount) throw new StateTooLarge(state.path, state.live, state.live - table.slotCount)
  const evictedBefore = table.forcedEvictions
  const nowMs = clock.nowMs()
  const wallMs = clock.wallMs()
  const shift = new TimeShift(state.header, wallMs, nowMs)
  let live = 0
  try {
    await scanState(state.path, {
      onRecord: (record) => {
        if (!shift.apply(record)) return
        live++
        restore(table, record, nowMs, wallMs)
      },
    })
  } catch (error) {
    throw new StateFault(`cannot read ${state.path} again`, error)
  }
  const evicted = table.forcedEvictions - evictedBefore
  return { counters: live - evicted, evicted }
}

async function checkState(path: string, clock: Clock): Promise<SavedState> {
  let shift: TimeShift | undefined
  let live = 0
  const { header, counters } = await scanState(path, {
    onHeader: (read) => {
      shift = new TimeShift(read, clock.wallMs(), clock.nowMs())
    },
    onRecord: (record) => {
      if (shift!.apply(record)) live++
    },
  })
  return { path, header, counters, live }
}
