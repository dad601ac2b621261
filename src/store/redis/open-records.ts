import type { Clock } from '../../time/clock.ts'
import type { OpenRecord, OpenReservation } from '../charges.ts'
import { CounterKeys, recordHash, settlementRows } from './counter-rows.ts'
import { LinkError, type ScriptArgument } from './link/call.ts'
import type { CounterLink } from './script-calls.ts'
import { recordNumbers } from './script-format.ts'
import type { CounterScripts } from './scripts.ts'
import { isOutcomeUnknown } from './settlements.ts'

/**
 * Records in Redis of what requests in flight would give back, for the case that this instance dies. Beside each counter is a hash of them for each thread that
 * has reserved something there, and an index says where such hashes may be, and until when their thread should be heard of again. If it is not, any instance
 * gives back what the records say (open-returns.ts). Each step is one script in the slot of the counter, and a settlement closes the record in the same step: so a
 * reservation is given back once, whoever is only believed to be dead, and in whatever order calls arrive. Why: docs/decisions/reservations.md#0118
 */
export interface OpenRecordsParts {
  readonly link: CounterLink
  readonly scripts: Pick<CounterScripts, 'open' | 'openIndex'>
  /** Prefix of all keys. */
  readonly prefix: string
  /** Names this thread, and no other one ever. */
  readonly owner: string
  readonly clock: Pick<Clock, 'nowMs'>
  readonly source: OpenSource
}

interface OpenSource {
  readonly hasUnsettled: boolean
  openReservations(beforeMs: number): Iterable<OpenReservation>
}

/** Interval of reports. */
const BEAT_MS = 5000
/** Younger requests are not reported: most are over by then. */
const MIN_AGE_MS = 5000
/** A thread that was not heard of for so long counts as dead. */
export const SILENT_MS = 20_000
/** The most records of one thread. What other requests have reserved stays spent after a crash. */
const MAX_RECORDS = 10_000
/** Reservations that are reported at once, and records in one call: few enough that decisions on the same Redis do not slow down. */
const SLICE = 100
const BATCH = 20
const HOUR_MS = 3_600_000

export function indexKey(prefix: string): string {
  return `${prefix}open`
}

interface Open {
  readonly open: OpenReservation
  readonly record: OpenRecord
}

/** What one counter's record is to say. */
interface Report {
  readonly record: OpenRecord
  readonly key: string
  readonly back: number
  readonly numbers: readonly number[]
}

export class OpenRecords {
  readonly #parts: OpenRecordsParts
  readonly #keys: CounterKeys
  #timer: NodeJS.Timeout | undefined
  #isBusy = false
  #number = 0
  /** When the last beat began that succeeded. */
  #lastMs = 0

  constructor(parts: OpenRecordsParts) {
    this.#parts = parts
    this.#keys = new CounterKeys(parts.prefix)
  }

  /** Reports from now on, while there are requests in flight. */
  start(): void {
    this.#timer ??= setInterval(() => void this.beat(), BEAT_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Reports what has changed, once the index says where. Never rejects because of Redis: whatever failed is reported the next time. */
  async beat(): Promise<void> {
    if (this.#isBusy) return
    if (!this.#parts.source.hasUnsettled) return this.stop()
    this.#isBusy = true
    try {
      await this.#reportAll()
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
    } finally {
      this.#isBusy = false
    }
  }

  async #reportAll(): Promise<void> {
    const { source, clock } = this.#parts
    const now = clock.nowMs()
    // After so long a silence, records may have been returned: reporting them charges them again.
    const areAllDue = now - this.#lastMs > 2 * BEAT_MS
    let slice: Open[] = []
    let count = 0
    for (const open of source.openReservations(now - MIN_AGE_MS)) {
      const record = open.holder.open ?? this.#newRecord(open, now)
      if (record === undefined) continue
      count += record.keys.length
      if (count > MAX_RECORDS) break
      open.holder.open = record
      if (record.isClosed) continue
      slice.push({ open, record })
      if (slice.length < SLICE) continue
      await this.#reportSlice(slice, now, areAllDue)
      slice = []
    }
    await this.#reportSlice(slice, now, areAllDue)
    this.#lastMs = now
  }

  async #reportSlice(slice: readonly Open[], now: number, areAllDue: boolean): Promise<void> {
    const { link, scripts, prefix } = this.#parts
    const members = new Set(slice.flatMap(({ record }) => this.#membersOf(record)))
    if (members.size === 0) return
    const added = (await link.run(scripts.openIndex, [indexKey(prefix)], ['beat', String(SILENT_MS), ...members])) as readonly number[]
    // What the index did not have is new, or was returned because its clock has jumped, or ours stood still.
    const mayBeReturned = new Set([...members].filter((_, i) => added[i] === 1))
    const reports = slice.flatMap(({ open, record }) => {
      const isDue = areAllDue || this.#membersOf(record).some((member) => mayBeReturned.has(member))
      return this.#reportsOf(open, record, now, isDue)
    })
    const failed = new Set<OpenRecord>()
    await Promise.all(this.#inCalls(reports).map((call) => this.#send(call, failed)))
    for (const { record, back } of reports) if (!failed.has(record)) record.known = back
  }

  /** Returns what the index has for the counters of a record. */
  #membersOf({ keys, owner }: OpenRecord): string[] {
    return keys.map((key) => `${key.slice(this.#parts.prefix.length)}:${owner}`)
  }

  #newRecord({ parts: [first], taken }: OpenReservation, now: number): OpenRecord | undefined {
    if (first === undefined) return undefined
    const { link, prefix } = this.#parts
    // Hashes of another name every hour: empty fields are removed with their hash, a day after its last change.
    const owner = `${this.#parts.owner}.${Math.floor(now / HOUR_MS)}`
    const keys = Array.from({ length: first.charges.length }, (_, row) => this.#keys.keyOf(first.charges, row))
    // A prefix with a lone brace in it puts a record into another slot than its counter.
    if (keys.some((key) => link.groupOf(recordHash(prefix, key, owner)) !== link.groupOf(key))) return undefined
    const field = String(++this.#number)
    return { owner, field, keys, taken, sent: undefined, known: undefined, doubts: 0, isClosed: false }
  }

  /** Returns a report for each counter; if nothing has changed since the last one, none unless `isDue`. */
  #reportsOf({ parts, isMoney, taken }: OpenReservation, record: OpenRecord, now: number, isDue: boolean): Report[] {
    let [back, kept] = [0, 0]
    for (const part of parts) {
      back += part.charges.costs[0]!
      kept += part.kept
    }
    if (!isDue && record.known === back && record.taken === taken) return []
    record.taken = taken
    const rows = parts.map((part) => settlementRows(this.#keys, part.charges, part.taken, now))
    return record.keys.map((key, i) => {
      const numbers = [isMoney ? 1 : 0, kept, ...recordNumbers(rows.map((row) => row[i]!))]
      return { record, key, back, numbers }
    })
  }

  /** Puts reports into calls of one slot each. */
  #inCalls(reports: readonly Report[]): Report[][] {
    const calls: Report[][] = []
    const last = new Map<number, Report[]>()
    for (const report of reports) {
      const group = this.#parts.link.groupOf(report.key)
      let call = last.get(group)
      if (call === undefined || call.length === BATCH) {
        call = []
        last.set(group, call)
        calls.push(call)
      }
      call.push(report)
    }
    return calls
  }

  async #send(call: readonly Report[], failed: Set<OpenRecord>): Promise<void> {
    const { link, scripts, prefix } = this.#parts
    const open = call.filter(({ record }) => !record.isClosed)
    if (open.length === 0) return
    // What may or may not have been sent leaves doubts.
    if (!link.isUsable(link.groupOf(open[0]!.key))) {
      for (const { record } of open) failed.add(record)
      return
    }
    const args: ScriptArgument[] = open.flatMap(({ record, numbers }) => [record.field, record.known === undefined ? '1' : '0', numbers])
    for (const { record, back } of open) {
      record.sent = back
      record.doubts++
    }
    const keys = open.flatMap(({ key, record }) => [key, recordHash(prefix, key, record.owner)])
    try {
      const kept = (await link.run(scripts.open, keys, ['settle', [0], 'report', ...args])) as readonly number[]
      for (const [i, { record }] of open.entries()) {
        record.doubts--
        if (kept[i] === 1) continue
        failed.add(record)
        record.isClosed = true
      }
    } catch (error) {
      for (const { record } of open) {
        failed.add(record)
        if (!isOutcomeUnknown(error)) record.doubts--
      }
    }
  }
}
