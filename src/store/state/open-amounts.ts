import { ALGORITHMS } from '../../limiter/algorithms/algorithms.ts'
import { Resets } from '../table/embedded-counter.ts'
import type { SharedTable } from '../table/shared-table.ts'
import type { TaggedRecord } from '../table/table-records.ts'

/**
 * What requests in flight would give back to a counter if they ended now. It is saved beside the counters, whose levels include what these requests have
 * reserved: after a crash no process is left that would settle them. Each row, all little-endian, is
 *
 *     tag (2 × i32) | to give back (f64) | charged (f64) | moment of the take (f64) | 1 for money, 0 for tokens (u32) | 0 (u32)
 */
export interface OpenAmount {
  readonly low: number
  readonly high: number
  readonly back: number
  readonly kept: number
  /** Orders the take among resets of the counter. */
  readonly momentMs: number
  /** Whether amounts are billionths of a currency's unit, and not tokens. */
  readonly isMoney: boolean
}

const ROW_BYTES = 40
/** So many rows are 4 MB, the most that a section may have; amounts beyond them stay spent. */
const MAX_ROWS = 100_000

export function encodeOpenAmounts(amounts: readonly OpenAmount[]): Uint8Array {
  const rows = amounts.slice(0, MAX_ROWS)
  const view = new DataView(new ArrayBuffer(rows.length * ROW_BYTES))
  for (const [i, { low, high, back, kept, momentMs, isMoney }] of rows.entries()) {
    const at = i * ROW_BYTES
    view.setInt32(at, low, true)
    view.setInt32(at + 4, high, true)
    view.setFloat64(at + 8, back, true)
    view.setFloat64(at + 16, kept, true)
    view.setFloat64(at + 24, momentMs, true)
    view.setUint32(at + 32, isMoney ? 1 : 0, true)
  }
  return new Uint8Array(view.buffer)
}

function* decodeOpenAmounts(payload: Buffer): Generator<OpenAmount> {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length)
  for (let at = 0; at + ROW_BYTES <= payload.length; at += ROW_BYTES) {
    yield {
      low: view.getInt32(at, true),
      high: view.getInt32(at + 4, true),
      back: view.getFloat64(at + 8, true),
      kept: view.getFloat64(at + 16, true),
      momentMs: view.getFloat64(at + 24, true),
      isMoney: view.getUint32(at + 32, true) === 1,
    }
  }
}

/** Sums over counters: a request counts in each counter that it took from. */
export interface GivenBack {
  counters: number
  tokens: number
  keptTokens: number
  nanos: number
  keptNanos: number
}

/** Gives the amounts back to the counters of a table that was restored and is not in use yet. Counters that have ended or were reset since get nothing. */
export function giveBackOpen(table: SharedTable, payloads: readonly Buffer[]): GivenBack {
  const given = { counters: 0, tokens: 0, keptTokens: 0, nanos: 0, keptNanos: 0 }
  const seen = new Set<string>()
  for (const payload of payloads) {
    for (const amount of decodeOpenAmounts(payload)) {
      const { low, high, back, kept, isMoney } = amount
      if (!(back > 0) || !giveBack(table, amount)) continue
      seen.add(`${low} ${high}`)
      if (isMoney) {
        given.nanos += back
        given.keptNanos += kept
      } else {
        given.tokens += back
        given.keptTokens += kept
      }
    }
  }
  given.counters = seen.size
  return given
}

function giveBack(table: SharedTable, { low, high, back, momentMs }: OpenAmount): boolean {
  const record: TaggedRecord = { kind: 0, low, high, level: 0, at: 0, size: 0, rate: 0 }
  const set = table.setOf(high)
  table.lock(set)
  const slot = table.find(set, low, high)
  const isTaken = slot >= 0 && !new Resets(table).isSince(set, low, high, momentMs)
  if (isTaken) {
    table.read(slot, record)
    ALGORITHMS[record.kind]!.settle(record, back)
    table.write(slot, record.level, record.at, record.size, record.rate)
  }
  table.unlock(set)
  return isTaken
}
