import type { LimitReason } from '../policy/algorithms/compiled-rule.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import { ChargeResults, Charges } from '../store/charges.ts'
import type { Reservation } from './reservation.ts'

/** The result of the engine. A reject is a value, not an error. */
export type Decision = Allowed | Rejected | Refused

export interface Allowed extends Evaluated {
  readonly action: 'allow'
  /** all_rules_passed, or the reason of the first would-reject. */
  readonly reason: 'all_rules_passed' | RejectReason
  /** The most constrained enforcing rule; absent when none applied. */
  readonly limit: RateLimit | undefined
  /** What rules took, to be settled or released. Undefined where there is nothing of it. */
  readonly reservation: Reservation | undefined
}

export interface Rejected extends Evaluated {
  readonly action: 'reject'
  readonly reason: RejectReason
  /** Undefined where a block rejects. */
  readonly limit: RateLimit | undefined
  /** What the request takes from the rule that rejected, and what was left there: whole tokens, or hundredths of a currency's unit and their fraction. */
  readonly requested: number
  readonly available: number
  /** Whether only what requests in flight have reserved is in the way: the wait is for them, and not for the end of the window. */
  readonly awaitsSettlement: boolean
}

export type RejectReason = LimitReason | 'blocked'

/** Nothing was evaluated, nothing taken. */
export interface Refused {
  readonly action: 'refuse'
  readonly reason: 'no_bundle_loaded' | 'missing_original_host' | 'repeated_descriptor' | 'store_unavailable'
}

interface Evaluated {
  /** False where the request takes more than the limit can ever hold, or is blocked. */
  readonly canRetry: boolean
  /** The deciding policy and rule: the one that rejected, else a would-reject's, else the most constrained. */
  readonly policy: PlanPolicy | undefined
  readonly rule: PlanRule | undefined
  readonly wouldRejects: readonly WouldReject[]
  /** Descriptor keys that rules needed and the request lacks, each once. */
  readonly missingKeys: readonly string[]
  readonly matchedPolicies: number
  /** Whether an override had all policies in shadow mode. */
  readonly isShadowed: boolean
  /** The descriptors of all rules; empty unless requested. */
  readonly descriptors: readonly Descriptor[]
}

/** The state of a limit for this caller. */
export interface RateLimit {
  readonly rule: PlanRule
  /** The RateLimit-Limit header's value. */
  readonly limitText: string
  /** Whole tokens, or hundredths of a currency's unit; 0 on a reject. */
  readonly remaining: number
  /** On allow: until it is full again; on reject: until this request would pass. */
  readonly resetMs: number
}

/** A reject that shadow mode only records. */
export interface WouldReject {
  readonly rule: PlanRule
  readonly reason: RejectReason
}

export interface Descriptor {
  readonly key: string
  readonly value: string
}

/** Rules that are taken together, all or none: those of all enforcing policies, or of one shadow policy. */
export class Group {
  readonly charges = new Charges()
  readonly results = new ChargeResults()
  /** The first `ruleCount` rules are charged; `firstRows` has the row of each rule's first counter. */
  ruleCount = 0
  readonly rules: PlanRule[] = []
  readonly firstRows: number[] = []
  /** Rows that do not pass, and would if what requests in flight have reserved were given back. */
  readonly awaiting: number[] = []

  clear(): void {
    this.charges.clear()
    this.ruleCount = 0
    if (this.awaiting.length > 0) this.awaiting.length = 0
  }

  add(rule: PlanRule, firstRow: number): void {
    this.rules[this.ruleCount] = rule
    this.firstRows[this.ruleCount++] = firstRow
  }
}
