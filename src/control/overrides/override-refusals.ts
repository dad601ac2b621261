import { ApiError } from '../../admin/api/api-error.ts'
import { idOfKey, type Override, type Until } from '../../overrides/override.ts'
import { encodeEntry, MAX_ENTRY_BYTES, MAX_OVERRIDES } from '../../overrides/override-map.ts'
import { show } from '../../text/problem.ts'

/** Why an override cannot be set, edited or ended. In each of these cases nothing was changed. */

export function tooManyOverrides(): ApiError {
  return new ApiError('bad_request', `there are ${MAX_OVERRIDES} overrides already, the most there may be: end some first`)
}

/** The largest time value in JavaScript: no time is longer as text. */
const LAST_MS = 8.64e15

/** Refuses an override that is too large to be stored. */
export function refuseLong(content: Omit<Override, 'sinceMs'>): void {
  const override = { ...content, sinceMs: LAST_MS }
  const bytes = Buffer.byteLength(encodeEntry({ kind: 'set', momentMs: LAST_MS, forgetMs: LAST_MS, override }))
  if (bytes > MAX_ENTRY_BYTES)
    throw new ApiError('bad_request', `with its names, values and reason the override has ${bytes} bytes: ${MAX_ENTRY_BYTES} at most`)
}

/** The longest that an override may last; longer changes belong in the bundle. */
const MAX_DAYS = 3653
const MAX_MS = MAX_DAYS * 24 * 3600 * 1000

/** Returns when an override ends that is set now. */
export function untilMsOf(until: Until, wallMs: number): number {
  const untilMs = 'atMs' in until ? until.atMs : wallMs + until.inMs
  if (untilMs <= wallMs) throw new ApiError('bad_until', `until: ${new Date(untilMs).toISOString()} is in the past`)
  if (untilMs > wallMs + MAX_MS)
    throw new ApiError('bad_until', `until: at most ${MAX_DAYS} days from now; what is to stay belongs in the bundle`)
  return untilMs
}

/** `key` is that of the override that is there; `replace` is the id of the one that was expected to be. */
export function otherThere(key: string | undefined, replace: string | undefined): ApiError {
  if (key === undefined) return new ApiError('unknown_override', `there is no override ${show(replace)} to replace: leave replace out`)
  const id = idOfKey(key)
  if (id === replace) return changedMeanwhile(id)
  const way = replace === undefined ? 'end it, or replace it by its id' : `replace names ${show(replace)}`
  return new ApiError('override_exists', `override ${id} already exists: ${way}`)
}

export function changedMeanwhile(id: string): ApiError {
  return new ApiError(
    'override_exists',
    `override ${id} was changed by somebody else meanwhile: nothing was changed, look at it and try again`,
  )
}

export function noSuch(id: string): ApiError {
  return new ApiError('unknown_override', `there is no override ${show(id)}: it has expired, was ended or replaced, or never existed`)
}
