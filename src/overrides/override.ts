/**
 * An operator's change of one rule, for one caller or for everybody, or of the enforcement of all policies, with an end. Times are Unix times in
 * milliseconds.
 */
export interface Override {
  readonly id: string
  readonly subject: OverrideSubject
  readonly change: OverrideChange
  /** When it comes into force, by the clock of the override storage. */
  readonly sinceMs: number
  readonly untilMs: number
  readonly createdMs: number
  readonly actor: string
  readonly reason: string
  /** The latest edit; absent if it is as it was set. */
  readonly edit?: OverrideEdit
}

/** An operator's later change of what an override does, or of when it ends. */
export interface OverrideEdit {
  /** A random text, because two operators may edit the same override at the same time. */
  readonly version: string
  readonly actor: string
  readonly reason: string
  readonly atMs: number
}

/**
 * Identifies an override as it was set or edited: each edit comes into force at a moment of its own, until which the one before it applies. Ids are
 * hexadecimal, so the two parts cannot be confused.
 */
export function overrideKey({ id, edit }: Pick<Override, 'id' | 'edit'>): string {
  return edit === undefined ? id : `${id}.${edit.version}`
}

/** Returns the id of the override with this key. */
export function idOfKey(key: string): string {
  return key.split('.', 1)[0]!
}

/** The target of an override: the enforcement of all policies, or one rule, for a single caller if it has values. */
export type OverrideSubject = 'all_policies' | RuleSubject

export interface RuleSubject {
  readonly policy: string
  readonly rule: string
  /** Values by limit key of the rule, with credentials as digests. Undefined means all callers. */
  readonly values: Readonly<Record<string, string>> | undefined
}

export type OverrideChange =
  /** Scales rates and sizes. */
  | { readonly kind: 'multiply'; readonly factor: number }
  /** Replaces members of the rule's `algorithm_config`. */
  | { readonly kind: 'set'; readonly fields: Readonly<Record<string, unknown>> }
  | { readonly kind: 'unlimited' }
  /** `cutsStreams` also ends the open streams of those that it blocks. */
  | { readonly kind: 'block'; readonly cutsStreams?: true }
  /** Treats all policies as if in shadow mode, but on their usual counters. */
  | { readonly kind: 'shadow' }

/** An override with its times on the monotonic clock that all threads of a process share. */
export interface TimedOverride {
  readonly override: Override
  readonly fromMs: number
  readonly toMs: number
}

/**
 * The entry of an override map for one subject: its override, or the tombstone of one that an operator ended. Of two entries for a subject the later one
 * wins, whichever instance they come from. Times are Unix times in milliseconds, by the clock of the override storage.
 */
export type OverrideEntry = SetEntry | EndedEntry

export interface SetEntry extends EntryTimes {
  readonly kind: 'set'
  readonly override: Override
}

/** A tombstone, which keeps an instance that has not yet learned of the end from bringing the override back. */
export interface EndedEntry extends EntryTimes {
  readonly kind: 'ended'
  /** Id of the override that was ended. */
  readonly id: string
  readonly subject: OverrideSubject
  readonly actor: string
  readonly reason: string
}

interface EntryTimes {
  /** Orders the entries of a subject: when this one was put or, in a fleet, the moment shortly afterwards when it comes into force. */
  readonly momentMs: number
  /** The entry must be remembered until then: by that time it and everything it replaced would have expired anyway. */
  readonly forgetMs: number
}

export function subjectOf(entry: OverrideEntry): OverrideSubject {
  return entry.kind === 'set' ? entry.override.subject : entry.subject
}

/** Returns the same text for equal subjects, whatever the order of their values. */
export function subjectKey(subject: OverrideSubject): string {
  if (subject === 'all_policies') return '["all_policies"]'
  const { policy, rule, values } = subject
  return JSON.stringify(['rule', policy, rule, ...(values === undefined ? [] : [Object.entries(values).sort(byKey)])])
}

function byKey([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1
}

/** An operator's request for an override, checked against the rule. */
export interface OverrideOrder {
  readonly subject: OverrideSubject
  readonly change: OverrideChange
  readonly until: Until
  readonly actor: string
  readonly reason: string
  /** Id of the override that it replaces. */
  readonly replace: string | undefined
}

/** A moment, or a time from now. */
export type Until = { readonly atMs: number } | { readonly inMs: number }

/** An operator's request to edit an override, checked against the rule. What is undefined stays as it is. */
export interface EditOrder {
  readonly id: string
  /** Key of the override that the operator's request was checked against. */
  readonly key: string
  readonly change: OverrideChange | undefined
  readonly until: Until | undefined
  readonly actor: string
  readonly reason: string
}

export interface EndOrder {
  readonly id: string
  readonly actor: string
  readonly reason: string
}

/** An override as the admin API lists it. */
export interface ListedOverride {
  readonly override: Override
  readonly isDurable: boolean
}

/** An override that is no longer in force, or no longer as it was before an edit. */
export interface EndedOverride {
  readonly override: Override
  readonly endedMs: number
  readonly why: 'ended' | 'replaced' | 'edited' | 'over'
  /** Who ended, replaced or edited it, and why. Undefined if it expired. */
  readonly by: Pick<Override, 'actor' | 'reason'> | undefined
}

/** What would become of an order. */
export interface PreviewedOverride {
  readonly override: Omit<Override, 'sinceMs'>
  /** The override that applies now to those whom the order is about. */
  readonly before: Override | undefined
  /** Id of the override that would be replaced or edited. */
  readonly replaces: string | undefined
}

/** The difference between two sets of overrides. */
export interface OverridesChange {
  /** New overrides, and those whose times have changed. */
  readonly put: readonly TimedOverride[]
  /** Keys of the overrides that were removed. */
  readonly gone: readonly string[]
}
