import type { Logger } from 'pino'
import type { CallerDigest } from '../../engine/decide-options.ts'
import {
  type CounterName,
  type CounterStatus,
  type Inspection,
  type InspectionError,
  shownValues,
} from '../../engine/explain/inspection.ts'
import { countedUnit } from '../../policy/counted-unit.ts'
import { isCredential } from '../../policy/descriptor-key.ts'
import type { Plan } from '../../policy/plan.ts'
import { ApiError } from '../api/api-error.ts'
import { findRule, readReason, refuseUnknown } from '../api/api-request.ts'
import type { ApiResponse, ApiRoute } from '../api/api-route.ts'
import { type AskedCounters, askedByBody, askedByQuery, counterName, looksLikeDigest, refuseCredentials } from '../api/counter-name.ts'
import type { CallerValues, CounterJson, CountersJson, CountersRequest, ResetRequest } from '../api/types.ts'

interface CountersParts {
  readonly plan: () => Plan | undefined
  readonly inspect: (name: CounterName) => Inspection | Promise<Inspection>
  /** Converts credentials to digests. */
  readonly callerDigest: CallerDigest
}

/** GET counters and POST counters: what a caller has left of one rule. POST is for credentials, which must not be in a URL. */
export function* countersEndpoints({ plan, inspect, callerDigest }: CountersParts): Generator<ApiRoute> {
  const respond = async (asked: AskedCounters): Promise<ApiResponse> => {
    const name = counterName(findRule(plan(), asked), asked)
    const inspection = await inspect(name)
    refuseDigests(name, inspection)
    return inspectionResponse(inspection, callerDigest)
  }
  yield {
    method: 'GET',
    path: 'counters',
    handle: async ({ query }) => {
      const asked = askedByQuery(query)
      refuseCredentials(findRule(plan(), asked), asked)
      return respond(asked)
    },
  }
  yield {
    method: 'POST',
    path: 'counters',
    isForReaders: true,
    handle: async ({ body }) => {
      refuseUnknown<CountersRequest>(body, ['policy', 'rule', 'values'])
      return respond(askedByBody(body))
    },
  }
}

/** Full counters of a digest would be mistaken for those of its credential. A credential that happens to look like a digest has a counter as soon as it is used. */
function refuseDigests({ values }: CounterName, inspection: Inspection): void {
  if (!inspection.ok || inspection.counters.length === 0 || isCounted(inspection.counters)) return
  const key = Object.keys(values).find((each) => isCredential(each) && looksLikeDigest(values[each]!))
  if (key === undefined) return
  const found = 'this may be a digest, and counters are found only by the credential itself'
  const wayOut = `give the credential, or see the rejects and overrides of the digest: edge caller ${key}=DIGEST, or POST callers`
  throw new ApiError('wrong_values', `${key}: ${found}; ${wayOut}`)
}

export interface ResetParts extends Pick<CountersParts, 'plan' | 'callerDigest'> {
  /** Returns the counters' state after the reset. Rejects with an ApiError if nothing was reset. */
  readonly reset: (name: CounterName) => Promise<Inspection | UnknownReset>
  /** Returns false if the reset could not be saved. */
  readonly save: () => Promise<boolean>
  readonly logger: Logger
  /** Adds the reset to the list of changes. */
  readonly note: (reset: ResetNote) => Promise<void>
}

/** An operator's reset, for the list of changes. */
export interface ResetNote {
  readonly actor: string
  readonly reason: string
  readonly policy: string
  readonly rule: string
  /** Credentials are digests. */
  readonly values: CallerValues
  /** Why it is not known whether the reset was done everywhere; undefined if it was done. */
  readonly detail: string | undefined
}

/** Why the outcome of a reset is unknown. */
export interface UnknownReset {
  readonly unknown: string
}

/** POST counters/reset: resets a rule's counters for one caller to full, as if nothing had ever been taken. */
export function resetEndpoint({ plan, reset, save, callerDigest, logger, note }: ResetParts): ApiRoute {
  return {
    method: 'POST',
    path: 'counters/reset',
    handle: async ({ body, actor }) => {
      refuseUnknown<ResetRequest>(body, ['policy', 'rule', 'values', 'reason'])
      const reason = readReason(body['reason'])
      const asked = askedByBody(body)
      const rule = findRule(plan(), asked)
      const name = counterName(rule, asked)
      if (rule.counters.length === 0)
        throw new ApiError('bad_request', `a rule with algorithm ${rule.source.algorithm} has no counters, so there is nothing to reset`)
      const outcome = await reset(name)
      const fields = { event: 'counter_reset', actor, reason, policy: name.policy, rule: name.rule }
      const shown = shownValues(
        rule,
        rule.limitKeys.map((key) => name.values[key]!),
        callerDigest,
      )
      const noted = (detail?: string): Promise<void> => note({ actor, reason, policy: name.policy, rule: name.rule, values: shown, detail })
      if ('unknown' in outcome) {
        await noted(outcome.unknown)
        logger.warn(
          { ...fields, detail: outcome.unknown },
          'an operator reset counters; it is unknown whether all of them were reset everywhere',
        )
        throw new ApiError('store_unavailable', `the counters may have been reset: ${outcome.unknown}. It is safe to reset them again.`)
      }
      const isDone = outcome.ok || outcome.error === 'store_unavailable'
      if (!isDone) return inspectionResponse(outcome, callerDigest)
      logger.info(fields, 'an operator reset counters')
      await noted()
      if (!(await save()))
        throw new ApiError('store_unavailable', 'the counters are reset, but the state file could not be written: a crash could undo it')
      return inspectionResponse(outcome, callerDigest)
    },
  }
}

/** Responds with the state of a rule's counters for one caller. `callerDigest` converts credentials to digests. */
function inspectionResponse(inspection: Inspection, callerDigest: CallerDigest): ApiResponse {
  if (!inspection.ok) throw new ApiError(inspection.error, MESSAGES[inspection.error])
  const { rule, values, counters, override } = inspection
  const json: CountersJson = {
    policy: rule.policy.id,
    rule: rule.name,
    mode: rule.policy.mode,
    values: shownValues(rule, values, callerDigest),
    unit: countedUnit(rule),
    counters: counters.map(counterJson),
    holds: heldRequests(counters),
    override: override?.id ?? null,
  }
  return { status: 200, json }
}

/** Whether anything is counted for the caller now. */
export function isCounted(counters: readonly CounterStatus[]): boolean {
  return counters.some(({ level, limit }) => level < limit)
}

/** Requests in flight; null if none of the counters counts them. */
export function heldRequests(counters: readonly CounterStatus[]): number | null {
  const inFlight = counters.find(({ kind }) => kind === 'in_flight')
  return inFlight === undefined ? null : inFlight.limit - inFlight.level
}

/** All but the last occur only if another bundle became active after the request was read. */
const MESSAGES: Readonly<Record<InspectionError, string>> = {
  unknown_policy: 'there is no such policy in the active bundle',
  unknown_rule: 'there is no such rule in the active bundle',
  wrong_values: 'the limit_keys of the rule have changed with the active bundle',
  store_unavailable: 'Redis is unreachable, so the counters are unknown',
}

/** Returns a counter in the form that all endpoints use. */
export function counterJson({ kind, level, limit, remaining, resetMs, reserved }: CounterStatus): CounterJson {
  return { kind, level, limit, remaining, reset_s: wholeSeconds(resetMs), ...(reserved !== undefined && { reserved }) }
}

/** Rounds up, as in RateLimit-Reset and Retry-After, so that a client which waits this long does not come too early. */
export function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000)
}
