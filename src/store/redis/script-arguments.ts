import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
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
import type { CounterRow, QuestionRow, ReturnRow } from './counter-rows.ts'
import { windowsAround } from './windows-around.ts'

export type QuestionAction = 'take' | 'check' | 'reset'
type ReturnAction = 'settle' | 'refund' | 'give_back' | 'renew'

/** Sent in place of the tokens to lease. */
const SETTLED = -1

/** The arguments of the script, see `assets/redis/counters.lua`. */
export function questionArguments(action: QuestionAction, rows: readonly QuestionRow[]): string[] {
  const args: string[] = [action]
  for (const row of rows) {
    const { cost, most, lease, knownResetMs, wallMs } = row
    addRow(args, row, { cost, most, momentMs: knownResetMs, more: lease ?? SETTLED, wallMs })
  }
  return args
}

export function returnArguments(action: ReturnAction, rows: readonly ReturnRow[]): string[] {
  const args: string[] = [action]
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
  /** Sent in place of the shares to warn of. */
  readonly warnings?: number | undefined
}

function addRow(args: string[], { limit, ageMs }: CounterRow, { cost, most, momentMs, more, wallMs, warnings }: RowNumbers): void {
  const size = algorithmOf(limit).size(limit)
  args.push(String(limit.kind), String(cost), String(size), String(most), String(momentMs), canOverdraw(limit) ? '1' : '0')
  for (const number of ownNumbers(limit, { ageMs, more, wallMs, warnings })) args.push(String(number))
}

/** The further numbers of each kind, in the order of its `columns` in the script. */
const OWN_NUMBERS = {
  [BUCKET]: ({ tokensPerMs }: BucketLimit, { ageMs, more }: OwnParts): readonly number[] => [tokensPerMs, ageMs, more],
  [WINDOW]: (limit: WindowLimit, { wallMs, warnings }: OwnParts): readonly (number | string)[] => [
    ...windowsAround(limit.calendar, wallMs),
    warnings ?? warningsText(limit),
  ],
  [IN_FLIGHT]: ({ sliceMs }: InFlightLimit, { wallMs }: OwnParts): readonly number[] => [sliceMs, wallMs],
}

/** Such as `80:800,95:950`. */
function warningsText({ warnings }: WindowLimit): string | 0 {
  return warnings === undefined ? 0 : warnings.map(({ percent, tokens }) => `${percent}:${tokens}`).join(',')
}

interface OwnParts {
  readonly ageMs: number
  readonly more: number
  readonly wallMs: number
  readonly warnings: number | undefined
}

function ownNumbers(limit: Limit, parts: OwnParts): readonly (number | string)[] {
  return (OWN_NUMBERS[limit.kind] as (limit: Limit, parts: OwnParts) => readonly (number | string)[])(limit, parts)
}
