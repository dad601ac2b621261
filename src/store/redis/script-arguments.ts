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
import type { CounterOverride } from '../counter-store.ts'
import type { CounterRow, QueryRow, ReturnRow } from './counter-rows.ts'
import { windowsAround } from './windows-around.ts'

export type QueryAction = 'take' | 'check' | 'reset'
type ReturnAction = 'settle' | 'refund' | 'give_back' | 'renew'

/** Sent in place of the tokens to lease. */
const SETTLED = -1

/** The arguments of the script, see `assets/redis/counters.lua`. `knownMs`: the last change of overrides that is in force here. */
export function queryArguments(action: QueryAction, rows: readonly QueryRow[], knownMs: number): string[] {
  const args: string[] = [action, String(knownMs)]
  for (const row of rows) {
    const { cost, most, lease, knownResetMs, wallMs } = row
    addRow(args, row, { cost, most, momentMs: knownResetMs, more: lease ?? SETTLED, wallMs })
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
  /** Sent in place of the shares to warn of. */
  readonly warnings?: number | undefined
}

function addRow(
  args: string[],
  { limit, ageMs, override }: CounterRow,
  { cost, most, momentMs, more, wallMs, warnings }: RowNumbers,
): void {
  const size = algorithmOf(limit).size(limit)
  args.push(String(limit.kind), String(cost), String(size), String(most), String(momentMs), canOverdraw(limit) ? '1' : '0')
  for (const number of ownNumbers(limit, { ageMs, more, wallMs, warnings, override })) args.push(String(number))
}

/** The further numbers of each kind, in the order of its `columns` in the script. */
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

/** Such as `80:800,95:950`. */
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
