/** What a policy has decided lately. */
export interface PolicyActivity {
  readonly allowed: number
  readonly rejected: number
  readonly would_reject: number
  /** By name. Rules that decided nothing are left out. */
  readonly rules: ReadonlyMap<string, RuleActivity>
}

export interface RuleActivity {
  readonly rejected: number
  readonly would_reject: number
}
