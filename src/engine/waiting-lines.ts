import type { PlanRule } from '../policy/plan.ts'

/** The requests that wait, as one request sees them: a line for each counter and caller. */
export interface WaitingLines {
  /** Whether nobody waits. */
  readonly isEmpty: boolean
  /** Returns how much the requests ahead of this one will take from the counter of this line. */
  aheadIn(line: string): number
  /** Returns whether the request waits now, so that its rejection is not reported. */
  admit(wait: Wait): boolean
}

/** Stands for the lines where nobody waits, but it matters whether the request could. */
export const NO_LINES: WaitingLines = { isEmpty: true, aheadIn: () => 0, admit: () => false }

/** How a request would wait that only rules with `wait_seconds` reject, and that would pass in time by their numbers. */
export interface Wait {
  /** The rule with the longest wait, as the bundle has it. */
  readonly rule: PlanRule
  /** Names the caller of that rule; undefined if the rule does not tell callers apart. */
  readonly caller: string | undefined
  /** What the request needs from the counters that reject it. */
  readonly needs: readonly { readonly line: string; readonly cost: number }[]
  /** When to decide again: the longest wait of all counters, as far as it is known. */
  readonly lookMs: number
  /** How long the request may already have waited: with more, a rule would not let it pass in time. */
  readonly slackMs: number
  /** How long it may wait in all. */
  readonly maxMs: number
  /** Whether it waits for requests in flight, which nobody can predict. */
  readonly isOpenEnded: boolean
}
