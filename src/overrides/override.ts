/** An operator's change of one rule, for one caller or for everybody, until a time. Times are Unix times in milliseconds. */
export interface Override {
  readonly id: string
  readonly subject: OverrideSubject
  readonly change: OverrideChange
  /** From when on it is in force, by the clock of the store that shares the counters. */
  readonly sinceMs: number
  readonly untilMs: number
  readonly createdMs: number
  readonly actor: string
  readonly reason: string
}

/** What it changes: the enforcement of all policies, or one rule, for one caller where it has values. */
export type OverrideSubject = 'all_policies' | RuleSubject

export interface RuleSubject {
  readonly policy: string
  readonly rule: string
  /** By the rule's limit keys; credentials are digests. Undefined: all callers. */
  readonly values: Readonly<Record<string, string>> | undefined
}

export type OverrideChange =
  /** Scales rates and sizes. */
  | { readonly kind: 'multiply'; readonly factor: number }
  /** Members of the rule's `algorithm_config`. */
  | { readonly kind: 'set'; readonly fields: Readonly<Record<string, unknown>> }
  | { readonly kind: 'unlimited' }
  | { readonly kind: 'block' }
  /** All policies as in shadow mode, on the same counters. */
  | { readonly kind: 'shadow' }

/** An override with its times on the monotonic clock that all threads of a process share. */
export interface TimedOverride {
  readonly override: Override
  readonly fromMs: number
  readonly toMs: number
}

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

/** What an operator wants, checked against the rule. */
export interface OverrideOrder {
  readonly subject: OverrideSubject
  readonly change: OverrideChange
  readonly until: Until
  readonly actor: string
  readonly reason: string
  /** The id of the override whose place it takes. */
  readonly replace: string | undefined
}

/** A moment, or so much later than now. */
export type Until = { readonly atMs: number } | { readonly inMs: number }

export interface EndOrder {
  readonly id: string
  readonly actor: string
  readonly reason: string
}

/** An override as operators see it. */
export interface ListedOverride {
  readonly override: Override
  readonly isDurable: boolean
}

/** What changes in a set of overrides. */
export interface OverridesChange {
  /** New ones, and those whose times have changed. */
  readonly put: readonly TimedOverride[]
  /** The ids of those that are no longer in it. */
  readonly gone: readonly string[]
}
