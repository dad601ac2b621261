import type { TaggedRecord } from '../table-records.ts'
import type { Moment } from './state-format.ts'

/** Hears what is in a state file. What it gets is good only until the next call. */
export interface ScanListener {
  /** `saved` is the moment that the record is from. */
  onRecord(record: TaggedRecord, saved: Moment): void
  /** The next bytes of the sections that this program does not know, headers and all. */
  onUnknown?(bytes: Buffer): void
}
