/** What `GET bundle` returns. */
export interface BundleReport {
  readonly bundle: AppliedBundle | null
  readonly source: BundleSource | null
  readonly previous: AppliedBundle | null
  readonly changes: BundleChanges | null
}

export interface AppliedBundle {
  readonly version: string
  readonly hash: string
  readonly applied_at: string
  readonly policies: number
}

export interface BundleSource {
  readonly path: string | null
  readonly url: string | null
  readonly cached: boolean
  readonly problem: string | null
  readonly refused: { readonly problems: readonly string[]; readonly problems_in_all: number } | null
}

export interface BundleChanges {
  readonly policies: ChangeCounts
  readonly reordered: boolean
  readonly prices: ChangeCounts
  readonly complete: boolean
  readonly policy_changes: readonly PolicyChange[]
  readonly price_changes: readonly PriceChange[]
}

export interface ChangeCounts {
  readonly added: number
  readonly removed: number
  readonly changed: number
  readonly unchanged: number
}

export type ChangeKind = 'added' | 'removed' | 'changed'

export interface PolicyChange {
  readonly kind: ChangeKind
  readonly policy: string
  readonly fields: readonly FieldChange[]
  readonly rules: readonly { readonly kind: ChangeKind; readonly rule: string; readonly fields: readonly FieldChange[] }[]
  readonly left_out: number
}

export interface PriceChange {
  readonly kind: ChangeKind
  readonly table: string
  readonly model: string
  readonly fields: readonly FieldChange[]
}

export interface FieldChange {
  readonly field: string
  readonly before: string | null
  readonly after: string | null
}
