import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import type { Calendar } from '../../limiter/calendar.ts'
import { BUCKET, type BucketLimit, canOverdraw, IN_FLIGHT, WINDOW, type WindowLimit } from '../../limiter/limit.ts'
import type { OpenRecord } from '../charges.ts'
import type { CounterRow, QueryRow, ReturnRow } from './counter-rows.ts'
import { LinkError, type ScriptArgument } from './link/call.ts'

export type QueryAction = 'take' | 'check' | 'reset'
export type ReturnAction = 'settle' | 'refund' | 'give_back' | 'renew'

/** Sent in place of the tokens to lease, for counters whose takes are settled. */
const SETTLED = -1

/** What has to be left for a row to be taken: as much as it costs, anything at all (`canOverdraw`), or nothing. */
const NEEDS_COST = 0
const NEEDS_ANYTHING = 1
const NEEDS_NOTHING = 2

/**
 * Returns the arguments of the script, see `assets/redis/counters/counters.lua`. `knownMs` is the moment of the last change of overrides that
 * is in force here.
 */
export function queryArguments(action: QueryAction, rows: readonly QueryRow[], knownMs: number): ScriptArgument[] {
  const numbers = [knownMs]
  for (const row of rows) {
    const { cost, most, lease, knownResetMs, wallMs, isChargedAlong } = row
    addRow(numbers, row, { cost, most, momentMs: knownResetMs, more: lease ?? SETTLED, wallMs, isChargedAlong, withdrawnWarning: 0 })
  }
  return [action, numbers]
}

export function returnArguments(action: ReturnAction, rows: readonly ReturnRow[]): ScriptArgument[] {
  return [action, returnNumbers(rows)]
}

function returnNumbers(rows: readonly ReturnRow[]): number[] {
  const numbers = [0]
  for (const row of rows) {
    const { tokens, takenWallMs, momentMs, isLessRefill, withdrawnWarning = 0 } = row
    const more = isLessRefill ? 1 : 0
    addRow(numbers, row, { cost: tokens, most: 0, momentMs, more, wallMs: takenWallMs, isChargedAlong: false, withdrawnWarning })
  }
  return numbers
}

/** Returns the arguments of a settlement that closes the record of each row, see `assets/redis/counters/open.lua`. `isAgain`: it may have been done before. */
export function closingArguments(rows: readonly ReturnRow[], records: readonly OpenRecord[], isAgain: boolean): ScriptArgument[] {
  const closed = records.flatMap(({ field, known, doubts }) => [field, String(known ?? 0), isAgain ? '2' : doubts > 0 ? '1' : '0'])
  return [...returnArguments('settle', rows), 'close', ...closed]
}

/** No override has this moment, so that a bucket's record is given back under the limit that it has by then. */
const NO_OVERRIDE = { momentMs: -1, untilMs: 0, ruleSize: 0 }

/** Returns the numbers of rows that another instance may give back at any time. */
export function recordNumbers(rows: readonly ReturnRow[]): number[] {
  const kept = rows.map((row) => {
    const limit = row.limit.kind === WINDOW ? { ...row.limit, warnings: [] } : row.limit
    return { ...row, limit, override: NO_OVERRIDE }
  })
  return returnNumbers(kept).slice(1)
}

interface RowNumbers {
  readonly cost: number
  readonly most: number
  readonly momentMs: number
  readonly more: number
  /** A time within the window or slice in question. */
  readonly wallMs: number
  readonly isChargedAlong: boolean
  readonly withdrawnWarning: number
}

function addRow(numbers: number[], row: CounterRow, sent: RowNumbers): void {
  const { limit } = row
  const needs = sent.isChargedAlong ? NEEDS_NOTHING : canOverdraw(limit) ? NEEDS_ANYTHING : NEEDS_COST
  numbers.push(limit.kind, sent.cost, algorithmOf(limit).size(limit), sent.most, sent.momentMs, needs)
  switch (limit.kind) {
    case BUCKET:
      return addBucket(numbers, limit, row, sent)
    case WINDOW:
      return addWindow(numbers, limit, sent)
    case IN_FLIGHT:
      numbers.push(limit.sliceMs, sent.wallMs)
  }
}

function addBucket(numbers: number[], { tokensPerMs, burst }: BucketLimit, { ageMs, override }: CounterRow, { more }: RowNumbers): void {
  numbers.push(tokensPerMs, ageMs, more)
  if (override === undefined) numbers.push(0, 0, burst)
  else numbers.push(override.momentMs, override.untilMs, override.ruleSize)
}

function addWindow(numbers: number[], { calendar, warnings = [] }: WindowLimit, { wallMs, withdrawnWarning }: RowNumbers): void {
  numbers.push(...windowsAround(calendar, wallMs), withdrawnWarning, warnings.length)
  for (const { percent, tokens } of warnings) numbers.push(percent, tokens)
}

/** A reply of the script, see `assets/redis/counters/counters.lua`. */
export interface ScriptReply {
  /** Whether all rows fit; 'other_window' means that a row does not name the window of Redis's time, and nothing was done. */
  readonly fits: boolean | 'other_window'
  readonly wallMs: number
  readonly rows: readonly ReplyRow[]
}

interface ReplyRow {
  /** Tokens left. */
  readonly level: number
  readonly leased: number
  /** When the counter was last reset, or 0. */
  readonly resetMs: number
  /** 1000 × the percentage that is reached, plus the one that was warned of before; or 0. */
  readonly warning: number
  readonly refunded: number
}

export function warnedPercent(warning: number): number {
  return Math.floor(warning / 1000)
}

const OTHER_WINDOW = 2
const HEADER = 2
const COLUMNS = 5

/** No clock says more, and calendars can name the windows around every time up to here. */
const MAX_WALL_MS = 8e15

/** Reads a reply. Throws a LinkError if it is not one of the script. */
export function readReply(reply: unknown, rowCount: number): ScriptReply {
  const numbers: readonly number[] = Array.isArray(reply) && reply.every(Number.isFinite) ? reply : []
  const [fits, wallMs = 0] = numbers
  const isOtherWindow = fits === OTHER_WINDOW && numbers.length === HEADER
  const length = HEADER + (isOtherWindow ? 0 : COLUMNS * rowCount)
  const isOfScript = numbers.length === length && wallMs >= 0 && wallMs <= MAX_WALL_MS
  if (!isOfScript) throw new LinkError('unknown', 'malformed', 'not a reply of the script')
  const rows: ReplyRow[] = []
  for (let i = HEADER; i < length; i += COLUMNS) {
    const [level, leased, resetMs, warning, refunded] = [numbers[i]!, numbers[i + 1]!, numbers[i + 2]!, numbers[i + 3]!, numbers[i + 4]!]
    rows.push({ level, leased, resetMs, warning, refunded })
  }
  return { fits: isOtherWindow ? 'other_window' : fits === 1, wallMs, rows }
}

/** Three consecutive windows as the script reads them: number and start of each, then the end of the last. */
export type WindowNumbers = readonly [number, number, number, number, number, number, number]

interface Around {
  readonly startMs: number
  readonly endMs: number
  readonly numbers: WindowNumbers
}

/** The current windows of each calendar. They are cached because finding them takes three searches outside UTC. */
const CACHE = new WeakMap<Calendar, Around>()

/** Returns the window at that time, the one before it and the one after it. */
export function windowsAround(calendar: Calendar, wallMs: number): WindowNumbers {
  const known = CACHE.get(calendar)
  if (known !== undefined && wallMs >= known.startMs && wallMs < known.endMs) return known.numbers
  const { number, startMs, endMs } = calendar.windowAt(wallMs)
  const previous = calendar.windowAt(startMs - 1)
  const following = calendar.windowAt(endMs)
  const numbers = [previous.number, previous.startMs, number, startMs, following.number, endMs, following.endMs] as const
  CACHE.set(calendar, { startMs, endMs, numbers })
  return numbers
}
