import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readState } from '../../../src/store/state/state-read.ts'
import { bucketRecord, clockAt, newFolder, save, tableOf, windowRecord } from './state.ts'

export const NOON_MS = Date.UTC(2026, 0, 15, 12)

export const CLOCK = clockAt(1000, NOON_MS)

export const MOMENT = { wallMs: NOON_MS - 5000, nowMs: 400 }

/** A bucket and a window. */
export async function savedFile(): Promise<{ path: string; good: Buffer }> {
  const path = join(await newFolder(), 'state')
  await save(path, tableOf(64, [bucketRecord(1, 50, 1000), windowRecord(2, 5, NOON_MS + 60_000)], 1000), CLOCK)
  return { path, good: await readFile(path) }
}

export async function complaintAbout(path: string): Promise<string> {
  const read = await readState(path, CLOCK)
  return read.kind === 'damaged' ? read.reason : read.kind
}
