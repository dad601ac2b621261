import { TICK_MS } from '../resets.ts'
import type { QueryRow, ReturnRow } from './counter-rows.ts'
import type { QueryAction } from './script-arguments.ts'
import type { ScriptReply } from './script-reply.ts'
import type { RowGroup } from './slot-groups.ts'

/** The rows of a query that are sent in one call, and the reply. */
export interface QueryCall extends RowGroup<QueryRow> {
  readonly action: QueryAction
  /** When it was sent, by our own clock. */
  readonly askedWallMs: number
  /** The last change of overrides that was in force here by then. */
  readonly knownMs: number
  /** Undefined while the call is pending, and where it failed. */
  reply: ScriptReply | undefined
}

/** Tokens leased, and when: by the clock of Redis, later than every reset before it. */
export interface Grant {
  readonly tokens: number
  readonly momentMs: number
}

/** When a row was taken: later than the reset before it, even if the clock of Redis was set back since. */
export function takenMs({ wallMs, resetsMs }: ScriptReply, i: number): number {
  return resetsMs[i]! > 0 ? Math.max(wallMs, resetsMs[i]! + TICK_MS) : wallMs
}

/** The tokens leased for a row of the charges. All calls have a reply. */
export function grantOf(calls: readonly QueryCall[], row: number): Grant {
  for (const { rows, reply } of calls) {
    const i = rows.findIndex((other) => other.row === row)
    if (i >= 0) return { tokens: reply!.leased[i]!, momentMs: takenMs(reply!, i) }
  }
  return { tokens: 0, momentMs: 0 }
}

/** All that a call has taken and leased, to be given back. */
export function returnsOf({ rows, reply }: QueryCall, isLessRefill: boolean): ReturnRow[] {
  return rows.map(({ key, limit, ageMs, override, cost }, i) => {
    return {
      key,
      limit,
      ageMs,
      override,
      tokens: cost + reply!.leased[i]!,
      takenWallMs: reply!.wallMs,
      momentMs: takenMs(reply!, i),
      isLessRefill,
      withdrawnWarning: reply!.warnings[i]!,
    }
  })
}
