import type { KeyJson } from '../../src/admin/api/key-types.ts'
import { nowMs } from '../clock.ts'
import { EndField } from '../parts/end-field.tsx'
import { Moment } from '../parts/time.tsx'
import { KeyEnd } from './key-facts.tsx'

const CHOICES = [
  ['1', '1 d'],
  ['7', '7 d'],
  ['30', '30 d'],
  ['90', '90 d'],
  ['365', '1 y'],
  ['never', 'Never'],
  ['at', 'At…'],
] as const
const DAY_MS = 86_400_000

interface ExpiryFieldProps {
  readonly error: string | undefined
  /** When the key expires now, which may stay as it is; undefined for a new key. */
  readonly current?: KeyJson['expires_at']
}

/** Fields for the end of a key. */
export function ExpiryField({ error, current }: ExpiryFieldProps) {
  return (
    <EndField legend="Expires" name="expires" choices={CHOICES} initial="90" canStay={current !== undefined} error={error}>
      {(choice) => (
        <p class="hint">
          {choice === 'never' ? (
            'It is of use until somebody revokes it.'
          ) : choice === 'same' ? (
            <>
              Expires: <KeyEnd end={current!} />
            </>
          ) : (
            <>
              It expires at <Moment at={new Date(nowMs.value + Number(choice) * DAY_MS).toISOString()} />.
            </>
          )}
        </p>
      )}
    </EndField>
  )
}

/** Returns the end in the form that the API expects: null for never, undefined if it stays as it is. */
export function readExpiry(form: FormData): string | null | undefined {
  const choice = String(form.get('expires'))
  switch (choice) {
    case 'same':
      return undefined
    case 'never':
      return null
    case 'at':
      return new Date(String(form.get('time'))).toISOString()
    default:
      return `${choice}d`
  }
}

/** Returns when a key with such an end expires. */
export function expiryTime(end: string | null): string | null {
  const [, days] = /^(\d+)d$/.exec(end ?? '') ?? []
  return days === undefined ? end : new Date(nowMs.peek() + Number(days) * DAY_MS).toISOString()
}
