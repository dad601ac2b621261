import type { Until } from '../../../overrides/override-order.ts'
import { dateTimeMs } from '../../../policy/date-time.ts'
import { show } from '../../../policy/problem.ts'
import { ApiError } from '../api-error.ts'

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const DURATION = /^(\d{1,9})([smhd])$/
const UTC = /(?:Z|[+-]00:00)$/i

/** A time, or a duration from now. Whether it is in the past is for the clock of the store to say. */
export function readUntil(value: unknown): Until {
  const [, count, unit] = typeof value === 'string' ? (DURATION.exec(value) ?? []) : []
  if (unit !== undefined) return { inMs: Number(count) * UNIT_MS[unit]! }
  const atMs = typeof value === 'string' && UTC.test(value) ? dateTimeMs(value) : Number.NaN
  if (!Number.isNaN(atMs)) return { atMs }
  const got = value === undefined ? 'it is missing' : `got ${show(value)}`
  throw new ApiError(
    'bad_until',
    `until: expected a time in UTC such as 2026-01-31T12:00:00Z, or a duration such as 90s, 30m, 2h or 7d; ${got}`,
  )
}
