import { TICK_MS } from '../resets.ts'
import type { QuestionRow, ReturnRow } from './counter-rows.ts'
import type { ScriptAnswer } from './script-answer.ts'
import type { QuestionAction } from './script-arguments.ts'
import type { RowGroup } from './slot-groups.ts'

/** Rows of a question that one call reaches, and what Redis said to it. */
export interface QuestionCall extends RowGroup<QuestionRow> {
  readonly action: QuestionAction
  /** When it was asked, by our own clock. */
  readonly askedWallMs: number
  /** Undefined while it is on its way, and where it failed. */
  answer: ScriptAnswer | undefined
}

/** Tokens leased, and when, by the clock of Redis: after every reset before it. */
export interface Grant {
  readonly tokens: number
  readonly momentMs: number
}

/** When a row was taken: later than the reset that came before it, though the clock of Redis may have gone back since. */
export function takenMs({ wallMs, resetsMs }: ScriptAnswer, i: number): number {
  return resetsMs[i]! > 0 ? Math.max(wallMs, resetsMs[i]! + TICK_MS) : wallMs
}

/** What a row of the charges was leased by calls that were answered. */
export function grantOf(calls: readonly QuestionCall[], row: number): Grant {
  for (const { rows, answer } of calls) {
    const i = rows.findIndex((other) => other.row === row)
    if (i >= 0) return { tokens: answer!.leased[i]!, momentMs: takenMs(answer!, i) }
  }
  return { tokens: 0, momentMs: 0 }
}

/** All that an answered call has taken and leased, to be given back. */
export function returnsOf({ rows, answer }: QuestionCall, isLessRefill: boolean): ReturnRow[] {
  return rows.map(({ key, limit, ageMs, cost }, i) => {
    return {
      key,
      limit,
      ageMs,
      tokens: cost + answer!.leased[i]!,
      takenWallMs: answer!.wallMs,
      momentMs: takenMs(answer!, i),
      isLessRefill,
    }
  })
}
