import { lstat, rename, stat } from 'node:fs/promises'
import type { Clock } from '../../time/clock.ts'
import type { SharedTable } from '../table/shared-table.ts'
import { tableBytesFor } from '../table/table-layout.ts'
import { restore } from '../table/table-records.ts'
import { bringTo, type Moment, StateDamage, StateFault, type StateHeader } from './state-format.ts'
import { scanState } from './state-scan.ts'

export type StateRead =
  | { readonly kind: 'none' }
  /** The reason is a clause about the file, such as "it is cut off". */
  | { readonly kind: 'damaged'; readonly reason: string }
  | { readonly kind: 'found'; readonly state: SavedState }

/** A file that was read once and is intact. */
export interface SavedState {
  readonly path: string
  readonly header: StateHeader
  /** Number of counters in the file, and of resets of counters. */
  readonly counters: number
  /** How many of these are still live. */
  readonly live: number
  /** Sections that this program cannot read, byte for byte, which the next save writes back. */
  readonly unknownSections: Buffer
  /** Payloads of the sections that are not made of records, by type. */
  readonly payloads: ReadonlyMap<number, readonly Buffer[]>
}

export interface Restored {
  readonly counters: number
  /** Live counters for which there was no room in their set. */
  readonly evicted: number
}

/** Thrown if there are more live counters than the table has room for. The file is unchanged. */
export class StateTooLarge extends Error {
  /** Size of a table that has room for twice as many counters, so that hardly any set overflows. */
  readonly enoughBytes: number

  constructor(path: string, live: number, withoutRoom: number) {
    super(`${path} has ${live} live counters, and there is no room for ${withoutRoom} of them`)
    this.enoughBytes = Math.ceil(tableBytesFor(live * 2) / MIB) * MIB
  }
}

const MIB = 1024 * 1024

/** Checks the whole file and changes nothing. Throws a StateFault if the file cannot be read at all. */
export async function readState(path: string, clock: Clock): Promise<StateRead> {
  try {
    const found = await stat(path)
    // Reading a pipe would block for ever, and a directory is not ours to rename.
    if (!found.isFile()) throw new Error('it is not a regular file')
    return { kind: 'found', state: await checkState(path, clock) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { kind: 'none' }
    if (error instanceof StateDamage) return { kind: 'damaged', reason: error.message }
    throw new StateFault(`cannot read ${path}`, error)
  }
}

/** Puts the live counters into a table that is not in use yet. Throws StateTooLarge before anything is changed. */
export async function restoreInto(table: SharedTable, state: SavedState, clock: Clock): Promise<Restored> {
  if (state.live > table.slotCount) throw new StateTooLarge(state.path, state.live, state.live - table.slotCount)
  const evictedBefore = table.forcedEvictions
  const present = momentOf(clock)
  let live = 0
  try {
    await scanState(state.path, {
      onRecord: (record, saved) => {
        if (!bringTo(present, saved, record)) return
        live++
        restore(table, record, present.nowMs, present.wallMs)
      },
    })
  } catch (error) {
    throw new StateFault(`cannot read ${state.path} again`, error)
  }
  const evicted = table.forcedEvictions - evictedBefore
  return { counters: live - evicted, evicted }
}

async function checkState(path: string, clock: Clock): Promise<SavedState> {
  const present = momentOf(clock)
  const unknown = new UnknownSections()
  const payloads = new Map<number, Buffer[]>()
  let live = 0
  const { header, counters } = await scanState(path, {
    onRecord: (record, saved) => {
      if (bringTo(present, saved, record)) live++
    },
    onPayload: (type, payload) => void payloads.set(type, [...(payloads.get(type) ?? []), payload]),
    onUnknown: (bytes) => unknown.add(bytes),
  })
  // Leaving these sections out of the next file would destroy what a newer program has saved.
  if (!unknown.fits) {
    throw new StateDamage(
      `a newer version of edge saved ${unknown.totalBytes} bytes in it that this version cannot read, and it can keep at most ${MAX_UNKNOWN_BYTES}`,
    )
  }
  return { path, header, counters, live, unknownSections: unknown.bytes, payloads }
}

function momentOf(clock: Clock): Moment {
  return { nowMs: clock.nowMs(), wallMs: clock.wallMs() }
}

/** The most memory for sections that this program cannot read. */
export const MAX_UNKNOWN_BYTES = 16 * 1024 * 1024

/** Sections of a file that this program cannot read, including their headers, to be written back byte for byte. */
export class UnknownSections {
  #kept = Buffer.alloc(0)
  #length = 0
  #total = 0

  /** Number of all bytes that were added, kept or not. */
  get totalBytes(): number {
    return this.#total
  }

  get fits(): boolean {
    return this.#total <= MAX_UNKNOWN_BYTES
  }

  get bytes(): Buffer {
    return this.#kept.subarray(0, this.#length)
  }

  add(bytes: Buffer): void {
    this.#total += bytes.length
    if (!this.fits) return
    if (this.#total > this.#kept.length) this.#growTo(Math.min(MAX_UNKNOWN_BYTES, this.#total * 2))
    bytes.copy(this.#kept, this.#length)
    this.#length = this.#total
  }

  #growTo(length: number): void {
    const larger = Buffer.alloc(length)
    this.#kept.copy(larger, 0, 0, this.#length)
    this.#kept = larger
  }
}

/** Renames a damaged file to a free name that is never read, and returns that name. The caller holds the file's lock. */
export async function setAside(path: string, wallMs: number): Promise<string> {
  const stamp = new Date(wallMs).toISOString().replaceAll(/[-:]|\.\d+/g, '')
  const wanted = `${path}.damaged-${stamp}`
  try {
    let name = wanted
    for (let i = 2; await exists(name); i++) name = `${wanted}-${i}`
    await rename(path, name)
    return name
  } catch (error) {
    throw new StateFault(`cannot set ${path} aside`, error)
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return false
  }
}
