import { limitFrom, limitRecord } from '../../limiter/limit.ts'
import { Charges, type Taken } from '../charges.ts'
import type { CounterLocator } from '../counter-locator.ts'
import type { EmbeddedStore } from '../table/embedded-store.ts'
import { LinkError } from './link/call.ts'
import type { ReservationScript } from './scripts.ts'
import type { UnknownOutcomeListener } from './settlements.ts'

export interface CorrectionsParts {
  readonly script: ReservationScript
  /** Prefix of all keys. */
  readonly prefix: string
  /** Id of this process: 16 hex digits. */
  readonly instance: string
  readonly local: EmbeddedStore
  /** Returns whether this process issued reservations that others may settle. */
  readonly isExpected: () => boolean
  readonly nowMs: () => number
  readonly wallMs: () => number
  readonly listener: UnknownOutcomeListener
}

/** The most corrections that wait for one instance. */
const CAPACITY = 10_000
/**
 * Corrections are kept for as long as a reservation can be settled. An instance that is down for longer starts from older counts anyway.
 */
const KEPT_MS = 2 * 60 * 60 * 1000
/** Corrections that one call reads: few enough that decisions on the same Redis do not slow down. */
const BATCH = 200
const END_OF_YEARS_MS = Date.UTC(10_000, 0)

/**
 * Exchanges corrections with other instances, when one of them settles what another took. Each instance counts what it took itself:
 * uncorrected, that count would reject requests that the fleet has room for.
 */
export class Corrections {
  readonly instance: string
  readonly #parts: CorrectionsParts
  #reading: Promise<number> | undefined

  constructor(parts: CorrectionsParts) {
    this.#parts = parts
    this.instance = parts.instance
  }

  /** Returns whether others may have left something for this instance. */
  isExpected(): boolean {
    return this.#parts.isExpected()
  }

  /**
   * Leaves the rows for the instance that took them. If `renewedMs` is given, they are holds that were renewed at that time. Never rejects:
   * a correction that is lost is counted, and that instance is stricter for a while.
   */
  async leave(taker: string, charges: Charges, taken: Taken, renewedMs?: number): Promise<void> {
    const { script, listener } = this.#parts
    const rows = charges.locators!.map(({ tag }, row): CorrectionRow => {
      const { kind, numbers, texts } = limitRecord(charges.counters[row]!.limit)
      return [tag, charges.costs[row]!, kind, numbers, texts]
    })
    const entry: Correction = [taken.wallMs, taken.momentMs, rows, renewedMs ?? null]
    try {
      if (await script.leave(this.#keyOf(taker), JSON.stringify(entry), CAPACITY, KEPT_MS)) return
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
    }
    listener.onUnknownOutcome('settlement')
  }

  /** Applies what others have left for this instance. Returns how many corrections could be read, which is 0 if Redis cannot be asked. */
  apply(): Promise<number> {
    this.#reading ??= this.#applyAll().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #applyAll(): Promise<number> {
    const { script, instance } = this.#parts
    let count = 0
    try {
      for (;;) {
        const entries = await script.read(this.#keyOf(instance), BATCH)
        for (const entry of entries) this.#apply(entry)
        count += entries.length
        if (entries.length < BATCH) return count
      }
    } catch (error) {
      if (error instanceof LinkError) return count
      throw error
    }
  }

  #apply(entry: string): void {
    const { local, nowMs, wallMs: presentMs, listener } = this.#parts
    const correction = readCorrection(entry)
    if (correction === undefined) return listener.onUnknownOutcome('settlement')
    const [wallMs, momentMs, rows, renewedMs] = correction
    const charges = new Charges()
    const locators: CounterLocator[] = []
    for (const [tag, cost, kind, numbers, texts] of rows) {
      const limit = limitFrom({ kind, numbers, texts })
      if (limit === undefined) continue
      charges.add(local.open({ identity: [], limit, sinceMs: 0 }), cost)
      locators.push({ identity: '', tag, key: undefined })
    }
    charges.locators = locators
    const taken: Taken = { wallMs, momentMs, from: 'shared' }
    if (renewedMs === null) local.settleAll(charges, taken, nowMs(), presentMs())
    else local.moveHolds(charges, taken, renewedMs, nowMs())
  }

  #keyOf(instance: string): string {
    return `${this.#parts.prefix}corrections:${instance}`
  }
}

/** The amounts that a settlement gives back to own counts, or that a renewal moves; costs below zero are charged. */
type Correction = readonly [takenWallMs: number, takenMomentMs: number, rows: readonly CorrectionRow[], renewedMs: number | null]
type CorrectionRow = readonly [tag: string, cost: number, kind: number, numbers: readonly number[], texts: readonly string[]]

/** Returns undefined if the entry is not one of ours: another program may have left it, and it must not crash this one. */
function readCorrection(entry: string): Correction | undefined {
  try {
    const read: unknown = JSON.parse(entry)
    return isCorrection(read) ? read : undefined
  } catch {
    return undefined
  }
}

function isCorrection(read: unknown): read is Correction {
  if (!Array.isArray(read)) return false
  const [wallMs, momentMs, rows, renewedMs] = read as readonly unknown[]
  const areTimes = isTime(wallMs) && Number.isFinite(momentMs) && (renewedMs === null || isTime(renewedMs))
  return areTimes && Array.isArray(rows) && rows.every(isCorrectionRow)
}

/** Returns whether this is a time in the years that calendars have windows for (`limiter/calendar.ts`). */
function isTime(ms: unknown): boolean {
  return Number.isFinite(ms) && (ms as number) >= 0 && (ms as number) < END_OF_YEARS_MS
}

function isCorrectionRow(read: unknown): read is CorrectionRow {
  if (!Array.isArray(read)) return false
  const [tag, cost, kind, numbers, texts] = read as readonly unknown[]
  return typeof tag === 'string' && Number.isFinite(cost) && Number.isFinite(kind) && Array.isArray(numbers) && Array.isArray(texts)
}
