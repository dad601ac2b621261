import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { BUCKET, WINDOW } from '../../../src/limiter/limit.ts'
import { StateFile } from '../../../src/store/state/state-file.ts'
import { readState, type SavedState } from '../../../src/store/state/state-read.ts'
import { scanState } from '../../../src/store/state/state-scan.ts'
import { SharedTable } from '../../../src/store/table/shared-table.ts'
import { newTableBuffer, RESET, tableBytesFor } from '../../../src/store/table/table-layout.ts'
import { restore, type TaggedRecord } from '../../../src/store/table/table-records.ts'
import type { Clock } from '../../../src/time/clock.ts'

export const HASH_KEY = [0x5eed, -0x5eed] as const

/** A folder that goes with its test. */
export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'edge-state-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Both clocks, standing still. */
export function clockAt(nowMs: number, wallMs: number): Clock {
  return { nowMs: () => nowMs, wallMs: () => wallMs }
}

export function newTable(slots: number, owner = 1): SharedTable {
  return new SharedTable(newTableBuffer(tableBytesFor(slots)), owner)
}

export function tableOf(slots: number, records: readonly TaggedRecord[], nowMs: number, wallMs = 0): SharedTable {
  const table = newTable(slots)
  for (const record of records) restore(table, record, nowMs, wallMs)
  return table
}

export function bucketRecord(key: number, level: number, at: number, size = 100, rate = 1 / 1024): TaggedRecord {
  return { kind: BUCKET, ...tagOf(key), level, at, size, rate }
}

export function windowRecord(key: number, used: number, endMs: number, size = 1000): TaggedRecord {
  return { kind: WINDOW, ...tagOf(key), level: used, at: endMs, size, rate: 0 }
}

export function resetRecord(key: number, momentMs: number, untilMs: number): TaggedRecord {
  return { kind: RESET, ...tagOf(key), level: momentMs, at: untilMs, size: 1, rate: 0 }
}

/** One that comes out of a table as it went in: 1 stands for 0 in the upper half of `low`. */
function tagOf(key: number): { readonly low: number; readonly high: number } {
  return { low: Math.imul(key, 0x1_0001), high: Math.imul(key, 0x9e37_79b1) }
}

export async function save(path: string, table: SharedTable, clock: Clock): Promise<void> {
  await stateFile(path, table, clock).save()
}

export function stateFile(path: string, table: SharedTable, clock: Clock): StateFile {
  return new StateFile({ path, table, hashKey: HASH_KEY, clock })
}

/** The file's state, which must be good. */
export async function readGood(path: string, clock: Clock): Promise<SavedState> {
  const read = await readState(path, clock)
  if (read.kind !== 'found') throw new Error(`no state: ${JSON.stringify(read)}`)
  return read.state
}

/** The file's records as they are written there. */
export async function recordsIn(path: string): Promise<TaggedRecord[]> {
  const records: TaggedRecord[] = []
  await scanState(path, { onRecord: (record) => void records.push({ ...record }) })
  return records
}
