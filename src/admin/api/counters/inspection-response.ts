import type { CallerDigest } from '../../../engine/caller-digest.ts'
import type { Inspection, InspectionError } from '../../../engine/inspection.ts'
import { shownValues } from '../../../engine/shown-values.ts'
import { ApiError } from '../api-error.ts'
import type { ApiResponse } from '../api-route.ts'
import { counterJson } from '../counter-json.ts'
import type { CountersJson } from '../types.ts'

/** The state of a rule's counters for one caller. `callerDigest` digests credentials. */
export function inspectionResponse(inspection: Inspection, callerDigest: CallerDigest): ApiResponse {
  if (!inspection.ok) throw new ApiError(inspection.error, MESSAGES[inspection.error])
  const { rule, values, counters, override } = inspection
  const inFlight = counters.find(({ kind }) => kind === 'in_flight')
  const json: CountersJson = {
    policy: rule.policy.id,
    rule: rule.name,
    mode: rule.policy.mode,
    values: shownValues(rule, values, callerDigest),
    counters: counters.map(counterJson),
    holds: inFlight === undefined ? null : inFlight.limit - inFlight.level,
    override: override?.id ?? null,
  }
  return { status: 200, json }
}

/** All but the last: another bundle became active since the question was read. */
const MESSAGES: Readonly<Record<InspectionError, string>> = {
  unknown_policy: 'there is no such policy in the active bundle',
  unknown_rule: 'there is no such rule in the active bundle',
  wrong_values: 'the limit_keys of the rule have changed with the active bundle',
  store_unavailable: 'Redis is unreachable, so the counters are not known',
}
