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
