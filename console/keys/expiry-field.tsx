import { useSignal } from '@preact/signals'
import { useId } from 'preact/hooks'
import type { KeyJson } from '../../src/admin/api/key-types.ts'
import { nowMs } from '../clock.ts'
import { formatZone } from '../format.ts'
import { Field } from '../parts/field.tsx'
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
  const choice = useSignal<string>(current === undefined ? '90' : 'same')
  const id = useId()
  const choices = current === undefined ? CHOICES : ([['same', 'As it is'], ...CHOICES] as const)
  return (
    <fieldset aria-describedby={error === undefined ? undefined : id}>
      <legend>Expires</legend>
      <div class="choices">
        {choices.map(([value, text]) => (
          <label key={value}>
            <input type="radio" name="expires" value={value} checked={choice.value === value} onChange={() => (choice.value = value)} />
            {text}
          </label>
        ))}
      </div>
      {choice.value === 'at' ? (
        <Field label={`Time, in your time zone (now ${formatZone(nowMs.value)})`}>
          {(control) => <input {...control} type="datetime-local" name="time" required step={1} class="short" />}
        </Field>
      ) : (
        <p class="hint">
          {choice.value === 'never' ? (
            'It is of use until somebody revokes it.'
          ) : choice.value === 'same' ? (
            <>
              Expires: <KeyEnd end={current!} />
            </>
          ) : (
            <>
              It expires at <Moment at={new Date(nowMs.value + Number(choice.value) * DAY_MS).toISOString()} />.
            </>
          )}
        </p>
      )}
      {error !== undefined && (
        <p class="error" id={id}>
          {error}
        </p>
      )}
    </fieldset>
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
