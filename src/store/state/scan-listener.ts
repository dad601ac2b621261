import type { TaggedRecord } from '../table-records.ts'
import type { Moment } from './state-format.ts'

/** Gets the content of a state file. Arguments are valid only until the next call. */
export interface ScanListener {
  /** `saved` is when the record was saved. */
  onRecord(record: TaggedRecord, saved: Moment): void
  /** A section that is not made of records, with a copy of its payload. */
  onPayload?(type: number, payload: Buffer): void
  /** The next bytes of sections that this program cannot read, including their headers. */
  onUnknown?(bytes: Buffer): void
}
