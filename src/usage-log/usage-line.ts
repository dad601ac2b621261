import type { Usage } from '../costs/cost.ts'
import type { CallerDigest } from '../engine/decide-options.ts'
import type { ReservedCharge } from '../engine/reservation.ts'
import { chargedParts } from '../engine/reserved-parts.ts'
import { WINDOW } from '../limiter/limit.ts'
import type { LlmRequest } from '../llm/llm-request.ts'
import { shownLabels, storableText } from './shown-labels.ts'

/** One request that rules for tokens or money covered, when it was settled. */
export interface SettledRequest {
  readonly request: LlmRequest
  readonly charges: readonly SettledCharge[]
  readonly usage: Usage
  /** How the response ended. */
  readonly end: string
  /** The model that the backend was asked for, if it replaced the request's own. */
  readonly sentModel: string | undefined
  /** The model that responded, if only `*` has a price for it. */
  readonly servedModel: string | undefined
  /** The backend of the bundle that the request was sent to last; undefined if `EDGE_BACKEND_URL` got it, or none. */
  readonly backend: string | undefined
  /** The status of the backend's response; undefined if there was none. */
  readonly status: number | undefined
  /** How long the backend took to begin its response, and until the response was settled. */
  readonly firstByteMs: number | undefined
  readonly lastByteMs: number
  /** 32 hexadecimal digits; undefined if neither the client nor edge traces the request. */
  readonly traceId: string | undefined
}

/** What one rule reserved for a request in all, and charged for it in the end. */
export interface SettledCharge {
  readonly charge: ReservedCharge
  readonly reserved: number
  readonly amount: number
}

/** Lines of one hour (UTC), such as `2026-11-18T10`. */
export interface HourLines {
  readonly hour: string
  readonly lines: string
}

/** Returns the line of the usage log, with its line end. Money is in whole billionths, so that sums of lines are exact. */
export function usageLine(settled: SettledRequest, wallMs: number, callerDigest: CallerDigest): string {
  const { request, charges, usage, end, sentModel, servedModel, backend, status, firstByteMs, lastByteMs, traceId } = settled
  const tokens = typeof usage === 'object' ? usage.tokens : undefined
  const line = {
    time: new Date(wallMs).toISOString(),
    trace: traceId,
    model: request.model && storableText(request.model),
    sent_model: sentModel,
    served_model: servedModel,
    backend,
    status,
    end,
    usage: typeof usage === 'string' ? usage : undefined,
    estimate: typeof usage === 'object' ? estimateIn(usage) : undefined,
    repeated: typeof usage === 'object' ? usage.isRepeated : undefined,
    tokens: tokens && {
      input: tokens.input,
      cached_input: tokens.cachedInput,
      cache_write: tokens.cacheWrite,
      cache_write_1h: tokens.cacheWrite1h,
      output: tokens.output,
    },
    first_byte_ms: firstByteMs === undefined ? undefined : Math.round(firstByteMs),
    last_byte_ms: Math.round(lastByteMs),
    labels: shownLabels(charges[0]!.charge.labels, callerDigest),
    rules: charges.map(ruleMember),
  }
  return `${JSON.stringify(line)}\n`
}

/** Names in responses are of any length. */
export function shownModel(model: string): string {
  return storableText(model.slice(0, MAX_MODEL_CHARACTERS))
}

const MAX_MODEL_CHARACTERS = 256

function estimateIn({ estimate, isUncounted }: Exclude<Usage, string>): string | undefined {
  return isUncounted ? 'fair' : estimate
}

/** Whether the rule charges money, in billionths; the others charge tokens. */
export function isMoney({ rule }: Pick<ReservedCharge, 'rule'>): boolean {
  return rule.counters[0]!.reason === 'budget_exceeded'
}

function ruleMember({ charge, reserved, amount }: SettledCharge): object {
  const { policy, name } = charge.rule
  const amounts = isMoney(charge) ? { reserved_nanos: reserved, cost_nanos: amount } : { reserved_tokens: reserved, tokens: amount }
  return { policy: policy.id, rule: name, mode: policy.isShadow ? 'shadow' : undefined, ...amounts, windows: windowsOf(charge, amount) }
}

/** Returns the windows that the amount counts in, which are several if a stream outlasted its window; undefined if the rule has none. */
function windowsOf(charge: ReservedCharge, amount: number): object[] | undefined {
  const counter = charge.rule.counters.find(({ limit }) => limit.kind === WINDOW)
  if (counter?.limit.kind !== WINDOW) return undefined
  const { calendar } = counter.limit
  const sums = new Map<number | undefined, { start: string | null; end: string | null; charged: number }>()
  for (const [taken, charged] of chargedParts(charge, amount)) {
    const window = taken && calendar.windowAt(taken.wallMs)
    const known = sums.get(window?.startMs)
    if (known !== undefined) known.charged += charged
    else sums.set(window?.startMs, { start: timeText(window?.startMs), end: timeText(window?.endMs), charged })
  }
  return [...sums.values()]
}

function timeText(wallMs: number | undefined): string | null {
  return wallMs === undefined ? null : new Date(wallMs).toISOString()
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)/
const ZEROS = /^0+$/

/**
 * Returns the trace that a request belongs to, by its `traceparent` (W3C Trace Context 3.2): of a version other than ff, and with ids that are not all zero.
 * A repeated field is not a string and therefore invalid.
 */
export function traceIdOf(traceparent: unknown): string | undefined {
  const [, version, traceId, parentId] = (typeof traceparent === 'string' && TRACEPARENT.exec(traceparent)) || []
  return traceId === undefined || version === 'ff' || ZEROS.test(traceId) || ZEROS.test(parentId!) ? undefined : traceId
}
