import { ApiError } from './api-error.ts'

const MAX_CHARACTERS = 1000

/** Why an operator changes something: every change is logged with it. */
export function readReason(value: unknown): string {
  if (value === undefined || value === null || value === '') throw new ApiError('missing_reason', 'reason: missing. Say why, for the log.')
  if (typeof value !== 'string') throw new ApiError('missing_reason', 'reason: expected a text')
  const reason = value.trim()
  if (reason === '') throw new ApiError('missing_reason', 'reason: missing. Say why, for the log.')
  if (reason.length > MAX_CHARACTERS) throw new ApiError('bad_request', `reason: expected at most ${MAX_CHARACTERS} characters`)
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(reason)) throw new ApiError('bad_request', 'reason: expected one line, without control characters')
  return reason
}
