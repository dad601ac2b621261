/** The engine as a library: load a bundle, decide on a plain object, no server needed. See docs/library.md. */

import type { Decision } from './engine/decision.ts'
import { type LimitResult, limitCallOf, type PlainLimitCall } from './engine/descriptors/descriptor-call.ts'
import { Engine } from './engine/engine.ts'
import type { Explanation } from './engine/explain/explanation.ts'
import type { CounterName, Inspection } from './engine/explain/inspection.ts'
import type { OnBudgetWarning } from './engine/watchers.ts'
import { isForwardingField } from './http1/field-name.ts'
import { compileBundle } from './policy/compile.ts'
import { type ParsedBundle, parseBundle } from './policy/parse.ts'
import { neverApplying, type WayOut } from './policy/review/absent-values.ts'
import type { BundleFormat } from './policy/schema/bundle.ts'
import type { VerifiedCaller } from './request/caller.ts'
import { TrustedProxies } from './request/client-address.ts'
import type { IpFacts } from './request/ip-facts.ts'
import { type FieldValue, type PlainRequest, PlainRequestView, type RequestView } from './request/view.ts'
import type { StoreStats } from './store/counter-store.ts'
import { newEmbeddedStore } from './store/table/embedded-store.ts'
import { parseAddress } from './text/address.ts'
import { type Clock, systemClock } from './time/clock.ts'

export type { Allowed, Decision, Descriptor, RateLimit, Refused, Rejected, WouldReject } from './engine/decision.ts'
export type { DescriptorStatus, LimitResult, PlainDescriptor, PlainLimitCall } from './engine/descriptors/descriptor-call.ts'
export type { ExplainedDescriptor, ExplainedPolicy, ExplainedRule, Explanation } from './engine/explain/explanation.ts'
export type { CounterName, CounterStatus, Inspection, InspectionError } from './engine/explain/inspection.ts'
export type { Reason } from './engine/reasons.ts'
export type { ExplainedCounter } from './engine/seen-counters.ts'
export type { BudgetWarning } from './engine/watchers.ts'
export { type ParsedBundle, parseBundle } from './policy/parse.ts'
export type { Bundle } from './policy/schema/bundle.ts'
export { type BundleFormat, formatOf } from './policy/schema/bundle.ts'
export type { CallerProblem, CallerVerdict, UnknownCaller, VerifiedCaller } from './request/caller.ts'
export { type IpFacts, readTorExits, readTypeList } from './request/ip-facts.ts'
export type { PlainRequest } from './request/view.ts'
export type { StoreStats } from './store/counter-store.ts'
export { formatProblem, type Problem } from './text/problem.ts'
export type { Clock } from './time/clock.ts'

export interface EmbeddedEngineOptions {
  /** Memory for counters, allocated once at the start. 64 MiB hold a million callers. */
  readonly storeBytes?: number | undefined
  /** Peers whose X-Forwarded-For and other fields about the client are trusted, in the format of EDGE_TRUSTED_PROXIES. */
  readonly trustedProxies?: string | undefined
  readonly ipFacts?: IpFacts | undefined
  readonly clock?: Clock | undefined
  /** Called when a caller reaches a percentage in warn_at_percent of a budget, or of a day's tokens. Must not throw. */
  readonly onBudgetWarning?: OnBudgetWarning | undefined
}

export interface EmbeddedEngine {
  /**
   * Checks a bundle and, if it is valid, makes it the active one. An invalid bundle changes nothing. Warns of rules that never apply: those by `context:` keys or
   * `llm:model`, and until a request has named its `peer`, those by `ip:` keys.
   */
  load(text: string, format?: BundleFormat): ParsedBundle
  /**
   * Decides and takes. With `explain`, the decision carries the descriptor values. `cost` is what rules that count requests take in place
   * of one; 0 takes nothing. Throws a RangeError if it is not a finite number of at least 0. `caller` is who sends the request, for a bundle
   * with `callers`: the library verifies no credentials, so without it the caller is unknown. Throws a TypeError if its id or a label is not a text, or empty.
   */
  decide(request: PlainRequest, options?: AskOptions & { readonly explain?: boolean | undefined }): Decision
  /**
   * Decides a call of the rate limit service, by the policies of its domain: takes for all of its descriptors, or for none. Throws a RangeError
   * if hits are not a finite number of at least 0, or if two entries of a descriptor have the same name.
   */
  decideDescriptors(call: PlainLimitCall): LimitResult
  /** Returns what the request would get now, and every policy, rule, descriptor and counter that leads to it. Takes nothing. */
  explain(request: PlainRequest, options?: AskOptions): Explanation
  /** Returns the state of a rule's counters for one caller. Takes nothing. */
  counters(name: CounterName): Inspection
  /** Resets a rule's counters for one caller, as if nothing had ever been taken, and returns their state. */
  reset(name: CounterName): Inspection
  stats(): StoreStats
}

export interface AskOptions {
  readonly cost?: number | undefined
  readonly caller?: PlainCaller | undefined
}

/** A caller whom you have verified: rules read `id` as `caller:id`, labels as `caller:<label>`, and claims as `jwt:<claim>` if the bundle has `callers.jwt`. */
export interface PlainCaller {
  readonly id: string
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly claims?: Readonly<Record<string, unknown>> | undefined
}

export function createEngine(options: EmbeddedEngineOptions = {}): EmbeddedEngine {
  const store = newEmbeddedStore(options.storeBytes ?? DEFAULT_STORE_BYTES)
  const trustedProxies = new TrustedProxies(options.trustedProxies, (entry) => {
    throw new RangeError(`trustedProxies: ${JSON.stringify(entry)} is not a CIDR, an address, loopback, linklocal or uniquelocal`)
  })
  const ipFacts = options.ipFacts ?? {}
  const identification = { trustedProxies, ipFacts }
  const { clock = systemClock, onBudgetWarning } = options
  const engine = new Engine({ store, clock, identification, ...(onBudgetWarning && { onBudgetWarning }) })
  let hasSeenPeer = false
  const viewOf = (request: PlainRequest): RequestView => {
    if (request.peer !== undefined) hasSeenPeer = true
    return new EmbeddedRequestView(request, trustedProxies)
  }
  return {
    load(text, format) {
      const parsed = parseBundle(text, format)
      if (!parsed.ok) return parsed
      engine.activate(compileBundle(parsed.bundle))
      return { ...parsed, warnings: [...parsed.warnings, ...neverApplying(parsed.bundle.policies, wayOutHere(hasSeenPeer, ipFacts))] }
    },
    // The embedded store returns values, not promises, and so does the engine.
    decide: (request, { explain, cost, caller } = {}) =>
      engine.decide(viewOf(request), { withDescriptors: explain, given: cost, caller: verified(caller) }) as Decision,
    decideDescriptors: (call) => engine.decideDescriptors(limitCallOf(call)) as LimitResult,
    explain: (request, { cost, caller } = {}) =>
      engine.explain(viewOf(request), { withDescriptors: true, given: cost, caller: verified(caller) }) as Explanation,
    counters: (name) => engine.inspect(name) as Inspection,
    reset: (name) => engine.reset(name) as Inspection,
    stats: () => store.stats(),
  }
}

/**
 * A request as the engine sees it here. As in `reverse_proxy`, the peer is the client, unless it is a trusted proxy: only such a proxy is believed what it says
 * about others.
 */
class EmbeddedRequestView extends PlainRequestView {
  readonly #address: string | undefined
  readonly #isProxy: boolean

  constructor(request: PlainRequest, trustedProxies: TrustedProxies) {
    super(request)
    const address = request.peer === undefined ? undefined : parseAddress(request.peer)
    this.#address = address && request.peer
    this.#isProxy = address !== undefined && trustedProxies.includes(address)
  }

  override header(name: string): FieldValue {
    if (!isForwardingField(name)) return super.header(name)
    const value = this.#isProxy ? super.header(name) : undefined
    return value === undefined && name === 'x-forwarded-for' ? this.#address : value
  }
}

/** What no request can have here, or none so far has had. */
function wayOutHere(hasSeenPeer: boolean, { countryOf }: IpFacts): WayOut {
  return (key) => {
    if (key.kind === 'context') return 'only Envoy sends it, to decision_service'
    if (key.kind === 'model') return 'the library sees no bodies: pass the model in a header field, and use that'
    if (key.kind !== 'ip') return undefined
    if (!hasSeenPeer) return 'pass the address of its connection with each request, such as peer: req.socket.remoteAddress'
    return key.fact === 'country' && countryOf === undefined ? 'pass ipFacts.countryOf' : undefined
  }
}

/** A number or an empty text would be no value, and rules skip requests without one, so nobody would be limited. */
function verified(caller: PlainCaller | undefined): VerifiedCaller | undefined {
  if (caller === undefined || caller === null) return undefined
  if (!isText(caller.id)) throw new TypeError('caller.id: expected a text')
  const { id, labels = {}, claims } = caller
  if (labels instanceof Map) throw new TypeError('caller.labels: expected an object of texts, not a Map')
  for (const [name, value] of Object.entries(labels)) if (!isText(value)) throw new TypeError(`caller.labels.${name}: expected a text`)
  return { id, labels: new Map(Object.entries(labels)), claims }
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

const DEFAULT_STORE_BYTES = 64 * 1024 * 1024
