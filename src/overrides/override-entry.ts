import type { Override, OverrideSubject } from './override.ts'

/**
 * What an override map has for one subject: its override, or the tombstone of one that an operator ended. Of two entries of a subject the
 * later one wins, wherever they come from. Times are Unix times in milliseconds, by the clock of the store that shares the counters.
 */
export type OverrideEntry = SetEntry | EndedEntry

export interface SetEntry extends EntryTimes {
  readonly kind: 'set'
  readonly override: Override
}

/** A tombstone: it keeps an instance that has not heard of the end from bringing the override back. */
export interface EndedEntry extends EntryTimes {
  readonly kind: 'ended'
  /** Of the override that it ends. */
  readonly id: string
  readonly subject: OverrideSubject
  readonly actor: string
  readonly reason: string
}

interface EntryTimes {
  /** When it was put. */
  readonly momentMs: number
  /** Until then it must be remembered: when it, and all that it took the place of, would be over by themselves. */
  readonly forgetMs: number
}

export function subjectOf(entry: OverrideEntry): OverrideSubject {
  return entry.kind === 'set' ? entry.override.subject : entry.subject
}

/** The same text for the same subject, in whatever order its values come. */
export function subjectKey(subject: OverrideSubject): string {
  if (subject === 'all_policies') return '["all_policies"]'
  const { policy, rule, values } = subject
  return JSON.stringify(['rule', policy, rule, ...(values === undefined ? [] : [Object.entries(values).sort(byKey)])])
}

function byKey([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1
}
