import { useSignal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { Field } from '../parts/field.tsx'

const CHOICES = [
  ['15m', '15 min'],
  ['1h', '1 h'],
  ['2h', '2 h'],
  ['day', 'End of day'],
  ['for', 'For…'],
  ['at', 'Until…'],
] as const

/** Fields for the end of a change. */
export function UntilField({ error }: { readonly error: string | undefined }) {
  const choice = useSignal('1h')
  const id = useId()
  return (
    <fieldset aria-describedby={error === undefined ? undefined : id}>
      <legend>Ends</legend>
      <div class="choices">
        {CHOICES.map(([value, text]) => (
          <label key={value}>
            <input type="radio" name="until" value={value} checked={choice.value === value} onChange={() => (choice.value = value)} />
            {text}
          </label>
        ))}
      </div>
      {choice.value === 'for' && (
        <Field label="Duration" hint="Such as 90s, 30m, 6h or 7d.">
          {(control) => <input {...control} name="duration" required autocomplete="off" class="short" />}
        </Field>
      )}
      {choice.value === 'at' && (
        <Field label="Time, in your time zone">
          {(control) => <input {...control} type="datetime-local" name="time" required step={1} class="short" />}
        </Field>
      )}
      {error !== undefined && (
        <p class="error" id={id}>
          {error}
        </p>
      )}
    </fieldset>
  )
}

/** Returns the end in the form that the API expects. */
export function readUntil(form: FormData): string {
  const choice = String(form.get('until'))
  switch (choice) {
    case 'day':
      return endOfDay(new Date()).toISOString()
    case 'for':
      return String(form.get('duration')).trim()
    case 'at':
      return new Date(String(form.get('time'))).toISOString()
    default:
      return choice
  }
}

/** Returns the next midnight in the operator's own time zone. */
function endOfDay(now: Date): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1)
}
