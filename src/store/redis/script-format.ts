import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import type { Calendar } from '../../limiter/calendar.ts'
import {
  BUCKET,
  type BucketLimit,
  canOverdraw,
  IN_FLIGHT,
  type InFlightLimit,
  type Limit,
  WINDOW,
  type WindowLimit,
} from '../../limiter/limit.ts'
import type { CounterOverride } from '../counter-store.ts'
import type { CounterRow, QueryRow, ReturnRow } from './counter-rows.ts'
import { LinkError } from './link/call.ts'

export type QueryAction = 'take' | 'check' | 'reset'
type ReturnAction = 'settle' | 'refund' | 'give_back' | 'renew'

/** Sent in place of the tokens to lease, for counters whose takes are settled. */
const SETTLED = -1

/** What has to be left for a row to be taken: as much as it costs, anything at all (`canOverdraw`), or nothing. */
const NEEDS_COST = 0
const NEEDS_ANYTHING = 1
const NEEDS_NOTHING = 2

/**
 * Returns the arguments of the script, see `assets/redis/counters.lua`. `knownMs` is the moment of the last change of overrides that is in
 * force here.
 */
export function queryArguments(action: QueryAction, rows: readonly QueryRow[], knownMs: number): string[] {
  const args: string[] = [action, String(knownMs)]
  for (const row of rows) {
    const { cost, most, lease, knownResetMs, wallMs, isChargedAlong } = row
    addRow(args, row, { cost, most, momentMs: knownResetMs, more: lease ?? SETTLED, wallMs, isChargedAlong })
  }
  return args
}

export function returnArguments(action: ReturnAction, rows: readonly ReturnRow[]): string[] {
  const args: string[] = [action, '0']
  for (const row of rows) {
    const { tokens, takenWallMs, momentMs, isLessRefill, withdrawnWarning = 0 } = row
    const warnings = action === 'give_back' ? withdrawnWarning : undefined
    addRow(args, row, { cost: tokens, most: 0, momentMs, more: isLessRefill ? 1 : 0, wallMs: takenWallMs, warnings })
  }
  return args
}

interface RowNumbers {
  readonly cost: number
  readonly most: number
  readonly momentMs: number
  readonly more: number
  /** A time within the window or slice in question. */
  readonly wallMs: number
  readonly isChargedAlong?: boolean
  /** The warning to withdraw, sent in place of the shares to warn of. */
  readonly warnings?: number | undefined
}

function addRow(
  args: string[],
  { limit, ageMs, override }: CounterRow,
  { cost, most, momentMs, more, wallMs, isChargedAlong, warnings }: RowNumbers,
): void {
  const size = algorithmOf(limit).size(limit)
  const needs = isChargedAlong === true ? NEEDS_NOTHING : canOverdraw(limit) ? NEEDS_ANYTHING : NEEDS_COST
  args.push(String(limit.kind), String(cost), String(size), String(most), String(momentMs), String(needs))
  for (const number of ownNumbers(limit, { ageMs, more, wallMs, warnings, override })) args.push(String(number))
}

/** Further arguments of each kind, in the order of its `columns` in the script. */
const OWN_NUMBERS = {
  [BUCKET]: ({ tokensPerMs }: BucketLimit, { ageMs, more, override }: OwnParts): readonly (number | string)[] => [
    tokensPerMs,
    ageMs,
    more,
    override === undefined ? 0 : `${override.momentMs}:${override.untilMs}:${override.ruleSize}`,
  ],
  [WINDOW]: (limit: WindowLimit, { wallMs, warnings }: OwnParts): readonly (number | string)[] => [
    ...windowsAround(limit.calendar, wallMs),
    warnings ?? warningsText(limit),
  ],
  [IN_FLIGHT]: ({ sliceMs }: InFlightLimit, { wallMs }: OwnParts): readonly number[] => [sliceMs, wallMs],
}

/** Formats the shares to warn of, such as `80:800,95:950`. */
function warningsText({ warnings }: WindowLimit): string | 0 {
  return warnings === undefined ? 0 : warnings.map(({ percent, tokens }) => `${percent}:${tokens}`).join(',')
}

interface OwnParts {
  readonly ageMs: number
  readonly more: number
  readonly wallMs: number
  readonly warnings: number | undefined
  readonly override: CounterOverride | undefined
}

function ownNumbers(limit: Limit, parts: OwnParts): readonly (number | string)[] {
  return (OWN_NUMBERS[limit.kind] as (limit: Limit, parts: OwnParts) => readonly (number | string)[])(limit, parts)
}

/** A reply of the script, see `assets/redis/counters.lua`. */
export interface ScriptReply {
  /** Whether all rows fit; 'other_window' means that a row does not name the window of Redis's time, and nothing was done. */
  readonly fits: boolean | 'other_window'
  readonly wallMs: number
  /**
   * Each list has a number per row: tokens left, tokens leased, the time of the last reset or 0, a warning or 0, and the refunded tokens.
   */
  readonly levels: readonly number[]
  readonly leased: readonly number[]
  readonly resetsMs: readonly number[]
  /** A warning is 1000 × the percentage that is reached, plus the one that was warned of before. */
  readonly warnings: readonly number[]
  readonly refunded: readonly number[]
}

export function warnedPercent(warning: number): number {
  return Math.floor(warning / 1000)
}

const OTHER_WINDOW = 2
const COLUMNS = 5

/** Reads a reply. Throws a LinkError if it is not one of the script. */
export function readReply(reply: unknown, rowCount: number): ScriptReply {
  const texts = String(reply).split(' ')
  const fits = Number(texts[0])
  const wallMs = Number(texts[1])
  const isOtherWindow = fits === OTHER_WINDOW && texts.length === 2
  let hasOnlyNumbers = texts.length === 2 + (isOtherWindow ? 0 : COLUMNS * rowCount) && !Number.isNaN(fits + wallMs)
  const columns: [number[], number[], number[], number[], number[]] = [[], [], [], [], []]
  for (let i = 2; i < texts.length; i++) {
    const number = Number(texts[i])
    if (Number.isNaN(number)) hasOnlyNumbers = false
    columns[(i - 2) % COLUMNS]!.push(number)
  }
  if (!hasOnlyNumbers) throw new LinkError('unknown', 'malformed', 'not a reply of the script')
  const [levels, leased, resetsMs, warnings, refunded] = columns
  return { fits: isOtherWindow ? 'other_window' : fits === 1, wallMs, levels, leased, resetsMs, warnings, refunded }
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
