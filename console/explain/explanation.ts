import type { Counter } from '../callers/caller.ts'

/** What `POST explain` returns. */
export interface Explanation {
  readonly action: 'allow' | 'reject' | 'refuse'
  readonly status: number
  readonly reason: string
  readonly policy: string | null
  readonly rule: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly policies: readonly ExplainedPolicy[]
}

export interface ExplainedPolicy {
  readonly id: string
  readonly mode: 'enforce' | 'shadow'
  readonly matched: boolean
  readonly why: string | null
  readonly rules: readonly ExplainedRule[]
}

export interface ExplainedRule {
  readonly name: string
  readonly applied: boolean
  readonly why: string | null
  readonly cost: number | null
  readonly descriptors: readonly { readonly key: string; readonly value: string | null }[]
  readonly counters: readonly ExplainedCounter[]
  readonly override: string | null
}

export interface ExplainedCounter extends Counter {
  /** Until the request would fit; null: never. */
  readonly wait_s: number | null
}
