import type { Allowed, Rejected } from '../engine/decision.ts'
import type { HeaderList } from '../http/header-list.ts'
import { pushDebug } from './debug-headers.ts'
import { pushRateLimit, pushReject, resetSeconds } from './rate-limit-headers.ts'

/** The fields that tell a caller how it stands; with `isDebug`, also what an operator wants to know. */
export function decisionHeaders(decision: Allowed | Rejected, isDebug: boolean, latencyMs: number): HeaderList {
  const headers: HeaderList = []
  if (decision.action === 'reject') pushReject(headers, decision)
  else if (decision.limit !== undefined) pushRateLimit(headers, decision.limit, resetSeconds(decision.limit))
  if (isDebug) pushDebug(headers, decision, latencyMs)
  return headers
}
