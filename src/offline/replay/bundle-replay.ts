import type { CallerDigest } from '../../engine/decide-options.ts'
import type { Decision } from '../../engine/decision.ts'
import type { Reason } from '../../engine/reasons.ts'
import type { Plan, PlanRule } from '../../policy/plan.ts'
import { Descriptors, type Identification, type RequestParts } from '../../request/descriptors.ts'
import { normalizePath } from '../../text/path.ts'
import { Simulation, type SimulationOptions } from '../simulation/simulation.ts'
import { BundleCounts, type ReplayVerdict } from './counts.ts'
import type { LoggedRequest } from './logs/logged-request.ts'

export interface ReplayedBundle {
  readonly file: string
  readonly plan: Plan
}

/** Decides requests by one bundle and counts the outcomes. It also holds the verdict on the last request. */
export class BundleReplay implements ReplayVerdict {
  readonly bundle: ReplayedBundle
  readonly counts: BundleCounts
  action: ReplayVerdict['action'] = 'allow'
  /** Whether a shadow policy would reject the last request. */
  isWouldReject = false
  rule: PlanRule | undefined
  values: readonly string[] = []
  readonly #simulation: Simulation
  readonly #readsBodies: boolean
  readonly #ruleValues: RuleValues

  constructor(bundle: ReplayedBundle, options: SimulationOptions, hashKey: readonly [number, number], callerDigest: CallerDigest) {
    const { plan } = bundle
    this.bundle = bundle
    this.counts = new BundleCounts(plan, hashKey, callerDigest)
    this.#simulation = new Simulation(plan, options)
    this.#readsBodies = options.mode === 'reverse_proxy' && plan.needsBody
    this.#ruleValues = new RuleValues(plan, options.identification)
  }

  /** Number of callers whose counters were dropped because the store was full. */
  get forcedEvictions(): number {
    return this.#simulation.forcedEvictions
  }

  /** Returns a promise only if a body must be read. */
  decide(request: LoggedRequest, atMs: number): void | Promise<void> {
    if (this.#readsBodies) return this.#decideWithBody(request, atMs)
    this.#conclude(this.#simulation.decideView(request, atMs, request.caller), undefined, request, atMs)
  }

  async #decideWithBody(request: LoggedRequest, atMs: number): Promise<void> {
    const { method, uri, host, fields, body, caller, peer: client } = request
    const asked = { method, uri, host: host === '' ? undefined : host, fields, body, caller, client, isBodyUnknown: body === undefined }
    const { answer } = await this.#simulation.decide(asked, atMs)
    this.#conclude(answer.decision, answer.refusal, request, atMs)
  }

  #conclude(decision: Decision | undefined, refusal: Reason | undefined, request: LoggedRequest, atMs: number): void {
    this.isWouldReject = decision?.action === 'allow' && decision.wouldRejects.length > 0
    if (decision === undefined || decision.action === 'refuse') {
      this.action = 'refuse'
      this.counts.addRefused(decision?.reason ?? refusal!)
      return
    }
    this.action = decision.action
    if (decision.action === 'reject') {
      this.rule = decision.rule
      this.values = this.#simulation.rejectedValues
    }
    this.counts.add(decision, atMs, this.values, (rule) => this.#ruleValues.of(rule, request))
  }
}

/** Reads the values of a rule's limit keys from a request again, because the engine reports them only for the rule that rejects. */
class RuleValues {
  readonly #plan: Plan
  readonly #descriptors: Descriptors
  readonly #parts: { -readonly [Name in keyof RequestParts]: RequestParts[Name] } = { path: '', model: undefined }

  constructor(plan: Plan, identification: Identification) {
    this.#plan = plan
    this.#descriptors = new Descriptors(identification, this.#parts)
  }

  of({ keyIndexes }: PlanRule, request: LoggedRequest): string[] {
    const { keys, callers } = this.#plan
    this.#parts.path = normalizePath(request.uri)
    this.#descriptors.begin(request, keys)
    if (callers !== undefined) this.#descriptors.setCaller(request.caller ?? { problem: 'no_credential' }, callers.verifiesTokens)
    const values = keyIndexes.map((index) => {
      const value = this.#descriptors.get(index)
      return typeof value === 'string' ? value : ''
    })
    this.#descriptors.end()
    return values
  }
}
