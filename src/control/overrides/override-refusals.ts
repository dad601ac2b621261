import { ApiError } from '../../admin/api/api-error.ts'
import { idOfKey, type Override, type Until } from '../../overrides/override.ts'
import { encodeEntry, MAX_ENTRY_BYTES, MAX_OVERRIDES } from '../../overrides/override-map.ts'
import { show } from '../../text/problem.ts'
import { changeText } from './override-log.ts'

/** Why an override cannot be set, edited or ended. In each of these cases nothing was changed. */

export function tooManyOverrides(): ApiError {
  return new ApiError('bad_request', `there are already ${MAX_OVERRIDES} overrides, the maximum: end some first`)
}

/** The largest time value in JavaScript: no time is longer as text. */
const LAST_MS = 8.64e15

/** Refuses an override that is too large to be stored. */
export function refuseLong(content: Omit<Override, 'sinceMs'>): void {
  const override = { ...content, sinceMs: LAST_MS }
  const bytes = Buffer.byteLength(encodeEntry({ kind: 'set', momentMs: LAST_MS, forgetMs: LAST_MS, override }))
  if (bytes > MAX_ENTRY_BYTES)
    throw new ApiError(
      'bad_request',
      `the override takes ${bytes} bytes; at most ${MAX_ENTRY_BYTES} are allowed (names, values and reason)`,
    )
}

/** The longest that an override may last; longer changes belong in the bundle. */
const MAX_DAYS = 3653 // ten years, with three leap days
const MAX_MS = MAX_DAYS * 24 * 3600 * 1000

/** Returns when an override ends that is set now. */
export function untilMsOf(until: Until, wallMs: number): number {
  const untilMs = 'atMs' in until ? until.atMs : wallMs + until.inMs
  if (untilMs <= wallMs) throw new ApiError('bad_until', `until: ${new Date(untilMs).toISOString()} is in the past`)
  if (untilMs > wallMs + MAX_MS) throw new ApiError('bad_until', `until: at most ten years from now; put permanent changes in the bundle`)
  return untilMs
}

/**
 * `key` is that of the override that is there, which `there` describes unless another instance has set it just now; `replace` is the id of the one that
 * was expected to be there.
 */
export function otherThere(key: string | undefined, there: Override | undefined, replace: string | undefined): ApiError {
  if (key === undefined) return new ApiError('unknown_override', `there is no override ${show(replace)} to replace: leave replace out`)
  const id = idOfKey(key)
  if (id === replace) return changedMeanwhile(id)
  const other = replace === undefined ? '' : `, and replace names ${show(replace)}`
  return new ApiError(
    'override_exists',
    `override ${id} already applies there${there === undefined ? '' : `: ${describeInForce(there)}`}${other}. ` +
      `Nothing was changed: edit it (edge override --edit ${id} --until TIME --reason TEXT), or replace it (--replace ${id})`,
  )
}

/** The most of a change's text that a message has. */
const MAX_CHANGE_CHARACTERS = 200

function describeInForce({ change, untilMs, actor, edit }: Override): string {
  const until = new Date(untilMs).toISOString().replace(/\.\d+Z$/, 'Z')
  const edited = edit === undefined ? '' : `, edited by ${edit.actor}`
  return `${changeText(change).slice(0, MAX_CHANGE_CHARACTERS)} until ${until}, set by ${actor}${edited}`
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
