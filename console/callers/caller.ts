import type { CallerValues } from '../caller-values.ts'

/** A caller of a rule. */
export interface RuleCaller {
  readonly policy: string
  readonly rule: string
  readonly values: CallerValues
}

export interface Counter {
  readonly kind: string
  readonly level: number
  readonly limit: number
  readonly remaining: number
  readonly reset_s: number
}

/** What a caller has left of a rule, as the admin API says. */
export interface Counters extends RuleCaller {
  readonly mode: 'enforce' | 'shadow'
  readonly counters: readonly Counter[]
  /** Requests in flight. */
  readonly holds: number | null
  /** The id of the override that holds for this caller. */
  readonly override: string | null
}

export interface RejectedCaller extends RuleCaller {
  readonly count: number
}

export interface NearCaller extends RuleCaller {
  readonly kind: string
  readonly remaining: number
  readonly limit: number
}

export interface Top {
  readonly since: string
  readonly max_error: number
  readonly complete: boolean
  readonly rejected: readonly RejectedCaller[]
  readonly nearest: readonly NearCaller[]
}
