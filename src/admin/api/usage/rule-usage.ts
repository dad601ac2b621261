/** A rule that counts tokens or money. One that did the other in an earlier bundle is another one. */
export interface RuleName {
  readonly policy: string
  readonly rule: string
  readonly unit: 'tokens' | 'money'
}

/** Tokens, or money in units of its currency, that responses came to. */
interface Usage {
  readonly last_minute: number
  readonly last_15_minutes: number
  readonly since_start: number
}

export interface RuleUsage extends RuleName {
  readonly used: Usage
}

/** By the metrics of all threads. */
export interface UsageReport {
  /** When counting began. */
  readonly since: string
  /** Of the rules that were asked about, in their order. */
  readonly asked: readonly RuleUsage[]
  /** The rules that used most lately: the first of those that count tokens, of those that count money, and so on. */
  readonly most: readonly RuleUsage[]
}
