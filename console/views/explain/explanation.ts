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

export interface ExplainedCounter {
  readonly kind: string
  readonly level: number
  readonly limit: number
  readonly remaining: number
  readonly reset_s: number
  readonly wait_s: number | null
}
