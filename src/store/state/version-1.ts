import { BUCKET, WINDOW } from '../../limiter/limit.ts'
import { DAY_MS } from '../../limiter/time-zone.ts'
import type { TaggedRecord } from '../table-records.ts'
import { CHUNK_BYTES, type ChunkReader } from './chunk-reader.ts'
import type { ScanListener } from './scan-listener.ts'
import { CUT_OFF, NONSENSE, StateDamage, WRONG_CHECKSUM } from './state-damage.ts'
import { DIGEST_BYTES, decodeRecord, type Moment, RECORD_BYTES } from './state-format.ts'

const COUNT_BYTES = 8

/**
 * Reads a file of version 1, which earlier builds wrote, after its header: records, their number (f64), and a sha256 of all before it. A
 * record is a bucket; one whose rate is 0 is a UTC day, with its end on the monotonic clock. Returns the number of records.
 */
export async function scanVersion1(reader: ChunkReader, saved: Moment, listener: ScanListener): Promise<number> {
  const count = (reader.bytesLeft - COUNT_BYTES - DIGEST_BYTES) / RECORD_BYTES
  if (count < 0 || !Number.isInteger(count)) throw new StateDamage(CUT_OFF)
  const record: TaggedRecord = { kind: 0, low: 0, high: 0, level: 0, at: 0, size: 0, rate: 0 }
  let isSound = true
  for (let left = count * RECORD_BYTES; left > 0; ) {
    const view = await reader.takeView(Math.min(left, CHUNK_BYTES))
    left -= view.byteLength
    for (let offset = 0; offset < view.byteLength; offset += RECORD_BYTES) {
      if (decodeVersion1(view, offset, saved, record)) listener.onRecord(record, saved)
      else isSound = false
    }
  }
  const written = (await reader.takeView(COUNT_BYTES)).getFloat64(0, true)
  if (!(await reader.takeChecksum())) throw new StateDamage(WRONG_CHECKSUM)
  if (written !== count || !isSound) throw new StateDamage(NONSENSE)
  return count
}

function decodeVersion1(view: DataView, offset: number, saved: Moment, into: TaggedRecord): boolean {
  if (!decodeRecord(view, offset, into)) return false
  into.kind = into.rate === 0 ? WINDOW : BUCKET
  if (into.kind === WINDOW) into.at = dayEnd(into.at - saved.nowMs + saved.wallMs, saved)
  return true
}

/**
 * A day ends at a midnight: the nearest is the right one, even if the clock was changed by some hours between the day's first request and
 * the save. A time that a wrong clock puts further ahead is kept for two days, not for years.
 */
function dayEnd(at: number, saved: Moment): number {
  return Math.min(Math.round(at / DAY_MS) * DAY_MS, saved.wallMs + 2 * DAY_MS)
}
