import type { LimitReason } from '../policy/algorithms/compiled-rule.ts'
import type { PlanPolicy, PlanRule } from '../policy/plan.ts'
import type { CallerVerdict, UnknownCaller } from '../request/caller.ts'
import { ChargeResults, Charges } from '../store/charges.ts'
import type { Reservation } from './reservation.ts'
import type { Wait } from './waiting-lines.ts'

/** The result of the engine. A reject is a value, not an error. */
export type Decision = Allowed | Rejected | Refused

export interface Allowed extends Evaluated {
  readonly action: 'allow'
  /** all_rules_passed, or the reason of the first would-reject. */
  readonly reason: 'all_rules_passed' | RejectReason
  /** The most constrained enforcing rule; undefined if none applied. */
  readonly limit: RateLimit | undefined
  /** Amounts that must be settled or released later; undefined if there are none. */
  readonly reservation: Reservation | undefined
}

export interface Rejected extends Evaluated {
  readonly action: 'reject'
  readonly reason: RejectReason
  /** Undefined if a block rejects. */
  readonly limit: RateLimit | undefined
  /** Amounts that the request needs from the rule that rejected it, and that were left: whole tokens, or hundredths of a currency unit with fractions. */
  readonly requested: number
  readonly available: number
  /** Whether only reservations of requests in flight are in the way, so that the wait is for them and not for the end of the window. */
  readonly awaitsSettlement: boolean
  /** How the request could wait instead of being rejected; undefined if it could not, or if nobody waits here. */
  readonly wait: Wait | undefined
  /** The request waits and will be decided again. The rejection is not reported. */
  readonly isWaiting: boolean
}

export type RejectReason = LimitReason | 'blocked'

/** The request was not decided, and nothing was taken. */
export interface Refused {
  readonly action: 'refuse'
  readonly reason:
    | 'no_bundle_loaded'
    | 'missing_original_host'
    | 'store_unavailable'
    | 'websocket_not_counted'
    | CallerReason
    | RouteProblem
  /** Why nobody knows who sent the request; undefined if it was refused for another reason. */
  readonly caller?: UnknownCaller
}

/** Why a request cannot be routed, or not be sent as its route says. */
export type RouteProblem = 'no_route' | 'repeated_descriptor' | 'model_not_replaceable' | 'bad_request'

/** Why a request without a verified caller is refused. */
export type CallerReason = 'unknown_caller' | 'caller_keys_unavailable' | 'caller_check_busy'

interface Evaluated {
  /** False if the request takes more than the limit can ever hold, or is blocked. */
  readonly canRetry: boolean
  /** The deciding policy and rule: the one that rejected, else that of the first would-reject, else the most constrained. */
  readonly policy: PlanPolicy | undefined
  readonly rule: PlanRule | undefined
  readonly wouldRejects: readonly WouldReject[]
  /** Descriptor keys that rules needed and the request lacks, each once. */
  readonly missingKeys: readonly string[]
  readonly matchedPolicies: number
  /** The policies that cover the request, in bundle order. */
  readonly coveredBy: readonly PlanPolicy[]
  /** Whether an override puts all policies in shadow mode. */
  readonly isShadowed: boolean
  /** Who sent the request, or why nobody knows; undefined if the bundle has no `callers`, or a block rejected the request whoever sent it. */
  readonly caller: CallerVerdict | undefined
  /** With `callers` in shadow mode: the reason with which they would refuse the request. */
  readonly wouldRefuse: CallerReason | undefined
  /** The descriptors of all rules; empty unless requested. */
  readonly descriptors: readonly Descriptor[]
}

/** The state of a limit for this caller. */
export interface RateLimit {
  readonly rule: PlanRule
  /** Value of the RateLimit-Limit header field. */
  readonly limitText: string
  /** Parameters of the RateLimit-Policy header field; undefined if it is not sent. */
  readonly quotaText?: string | undefined
  /** Whole tokens, or hundredths of a currency unit; 0 on a reject. */
  readonly remaining: number
  /** On an allow, the time until the limit is full again; on a reject, until this request would pass. */
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
  /** Rows that do not pass but would if the reservations of requests in flight were given back. */
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
