import { BUCKET } from '../../limiter/limit.ts'
import type { Charges } from '../charges.ts'
import { TICK_MS } from '../table/embedded-counter.ts'
import type { EmbeddedStore } from '../table/embedded-store.ts'
import type { CounterRow, QueryRow, ReturnRow } from './counter-rows.ts'
import type { Script } from './link/call.ts'
import type { RedisLink } from './link/redis-link.ts'
import {
  closingArguments,
  type QueryAction,
  queryArguments,
  type ReturnAction,
  readReply,
  returnArguments,
  type ScriptReply,
} from './script-format.ts'
import type { CounterScripts } from './scripts.ts'

/** The part of a connection that counters use. */
export type CounterLink = Pick<RedisLink, 'groupOf' | 'isUsable' | 'run'>

/** Decay of the slowest time with each reply: after a thousand, about a third of it is left. */
const SLOWEST_DECAY = 0.999

/** Runs the script on rows of counters. All rows of a call belong to one group. */
export class ScriptCalls {
  readonly #link: CounterLink
  readonly #scripts: CounterScripts
  /** The slowest recent round trip of a query. */
  slowestMs = 0

  constructor(link: CounterLink, scripts: CounterScripts) {
    this.#link = link
    this.#scripts = scripts
  }

  /** Sends a query. Rejects with a LinkError; `read` makes something of the reply. */
  send({ action, rows, knownMs }: QueryCall): Promise<unknown> {
    return this.#link.run(this.#scriptFor(rows), keysOf(rows), queryArguments(action, rows, knownMs))
  }

  /** Reads the reply to a query that was sent at `sentMs`. Throws a LinkError if it is not one of the script. */
  read({ rows }: QueryCall, reply: unknown, sentMs: number): ScriptReply {
    this.slowestMs = Math.max(performance.now() - sentMs, this.slowestMs * SLOWEST_DECAY)
    return readReply(reply, rows.length)
  }

  /** Rejects with a LinkError. A settlement that closes records may be sent again, with `isAgain`, if its outcome is unknown. */
  async giveBack(action: 'settle' | 'refund' | 'give_back', rows: readonly ReturnRow[], isAgain = false): Promise<ScriptReply> {
    return this.#return(action, rows, isAgain)
  }

  /** Rejects with a LinkError. */
  async renew(rows: readonly ReturnRow[]): Promise<ScriptReply> {
    return this.#return('renew', rows)
  }

  async #return(action: ReturnAction, rows: readonly ReturnRow[], isAgain = false): Promise<ScriptReply> {
    // The rows of a settlement have records in all of their counters, or in none.
    if (rows[0]!.open !== undefined) {
      const keys = rows.flatMap(({ key, open }) => [key, open!.hash])
      const records = rows.map(({ open }) => open!.record)
      return readReply(await this.#link.run(this.#scripts.open, keys, closingArguments(rows, records, isAgain)), rows.length)
    }
    return readReply(await this.#link.run(this.#scriptFor(rows), keysOf(rows), returnArguments(action, rows)), rows.length)
  }

  #scriptFor(rows: readonly CounterRow[]): Script {
    return rows.every(({ limit }) => limit.kind === BUCKET) ? this.#scripts.buckets : this.#scripts.all
  }
}

function keysOf(rows: readonly { readonly key: string }[]): string[] {
  return rows.map(({ key }) => key)
}

/** The rows of a query that are sent in one call, and the reply. */
export interface QueryCall extends RowGroup<QueryRow> {
  readonly action: QueryAction
  /** When it was sent, by our own clock. */
  readonly askedWallMs: number
  /** Moment of the last change of overrides that was in force here at that time. */
  readonly knownMs: number
  /** Undefined while the call is pending, and if it failed. */
  reply: ScriptReply | undefined
}

/** Tokens that were leased, and when: by the clock of Redis, but later than every reset before it. */
export interface Grant {
  readonly tokens: number
  readonly momentMs: number
}

/** Returns when a row was taken: later than the reset before it, even if the clock of Redis was set back since. */
export function takenMs({ wallMs, rows }: ScriptReply, i: number): number {
  const { resetMs } = rows[i]!
  return resetMs > 0 ? Math.max(wallMs, resetMs + TICK_MS) : wallMs
}

/** Returns the tokens leased for a row of the charges. All calls must have a reply. */
export function grantOf(calls: readonly QueryCall[], row: number): Grant {
  for (const { rows, reply } of calls) {
    const i = rows.findIndex((other) => other.row === row)
    if (i >= 0) return { tokens: reply!.rows[i]!.leased, momentMs: takenMs(reply!, i) }
  }
  return { tokens: 0, momentMs: 0 }
}

/** Returns rows that give back all that a call has taken and leased. */
export function returnsOf({ rows, reply }: QueryCall, isLessRefill: boolean): ReturnRow[] {
  return rows.map(({ key, limit, ageMs, override, cost }, i) => {
    return {
      key,
      limit,
      ageMs,
      override,
      tokens: cost + reply!.rows[i]!.leased,
      takenWallMs: reply!.wallMs,
      momentMs: takenMs(reply!, i),
      isLessRefill,
      withdrawnWarning: reply!.rows[i]!.warning,
    }
  })
}

/** Rows whose keys can be used in one call. */
export interface RowGroup<Row extends CounterRow> {
  readonly number: number
  readonly rows: Row[]
}

export function groupsOf<Row extends CounterRow>(link: Pick<RedisLink, 'groupOf'>, rows: readonly Row[]): RowGroup<Row>[] {
  const groups: RowGroup<Row>[] = []
  for (const row of rows) {
    const number = link.groupOf(row.key)
    const group = groups.find((other) => other.number === number)
    if (group === undefined) groups.push({ number, rows: [row] })
    else group.rows.push(row)
  }
  return groups
}

/** Calls that are made at once: few enough that decisions on the same Redis do not slow down. */
const BATCH = 64

/** Calls `run` for all items, a batch at a time. */
export async function inBatches<Item>(items: readonly Item[], run: (item: Item) => Promise<void>): Promise<void> {
  for (let from = 0; from < items.length; from += BATCH) await Promise.all(items.slice(from, from + BATCH).map(run))
}

/**
 * Raises this process's own counts to what Redis had left, for counters to which hits were given back: possibly by another instance, and
 * possibly hits that were taken here. A correct own count is never lower than that of the whole fleet. Call it before charging what the
 * calls took.
 */
export function applyRefunds(calls: readonly QueryCall[], charges: Charges, local: EmbeddedStore, nowMs: number): void {
  for (const { rows, reply, action } of calls) {
    if (reply === undefined || reply.fits === 'other_window') continue
    const isTaken = reply.fits && action === 'take'
    for (let i = 0; i < rows.length; i++) {
      const { row, cost } = rows[i]!
      const { level, leased, refunded } = reply.rows[i]!
      if (refunded > 0) local.raiseRow(charges, row, isTaken ? level + cost + leased : level, nowMs, reply.wallMs)
    }
  }
}

/**
 * Forgets this process's own counts of counters that were reset, and calls `onReset` for each reset that was not known here yet. Call it before
 * charging what the calls took: that was taken after the reset.
 */
export function applyResets(
  calls: readonly QueryCall[],
  charges: Charges,
  local: EmbeddedStore,
  nowMs: number,
  onReset: (charges: Charges, row: number) => void,
): void {
  for (const { rows, reply } of calls) {
    if (reply === undefined || reply.fits === 'other_window') continue
    for (let i = 0; i < rows.length; i++) {
      const { row, knownResetMs } = rows[i]!
      const { resetMs } = reply.rows[i]!
      if (resetMs > knownResetMs && local.resetRow(charges, row, resetMs, nowMs, reply.wallMs)) onReset(charges, row)
    }
  }
}
