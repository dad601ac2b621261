import { useSignal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { nowMs } from '../clock.ts'
import { formatZone } from '../format.ts'
import { Field } from '../parts/field.tsx'
import { Moment, Until } from '../parts/time.tsx'

const CHOICES = [
  ['15m', '15 min'],
  ['1h', '1 h'],
  ['2h', '2 h'],
  ['day', 'End of day'],
  ['for', 'For…'],
  ['at', 'Until…'],
] as const
const MINUTES: Readonly<Record<string, number>> = { '15m': 15, '1h': 60, '2h': 120 }
const MINUTE_MS = 60_000

interface UntilFieldProps {
  readonly error: string | undefined
  /** The end that an override has, which may stay as it is. */
  readonly current?: string
}

/** Fields for the end of a change. */
export function UntilField({ error, current }: UntilFieldProps) {
  const choice = useSignal<string>(current === undefined ? '1h' : 'same')
  const id = useId()
  const choices = current === undefined ? CHOICES : ([['same', 'As it is'], ...CHOICES] as const)
  return (
    <fieldset aria-describedby={error === undefined ? undefined : id}>
      <legend>Ends</legend>
      <div class="choices">
        {choices.map(([value, text]) => (
          <label key={value}>
            <input type="radio" name="until" value={value} checked={choice.value === value} onChange={() => (choice.value = value)} />
            {text}
          </label>
        ))}
      </div>
      {choice.value === 'for' ? (
        <Field label="Duration" hint="Such as 90s, 30m, 6h or 7d.">
          {(control) => <input {...control} name="duration" required autocomplete="off" class="short" />}
        </Field>
      ) : choice.value === 'at' ? (
        <Field label={`Time, in your time zone (now ${formatZone(nowMs.value)})`}>
          {(control) => <input {...control} type="datetime-local" name="time" required step={1} class="short" />}
        </Field>
      ) : (
        <p class="hint">
          It ends at {choice.value === 'same' ? <Until until={current!} /> : <Moment at={endOf(choice.value, nowMs.value)} />}.
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

/** Returns the end in the form that the API expects. */
export function readUntil(form: FormData): string {
  const choice = String(form.get('until'))
  switch (choice) {
    case 'day':
      return endOf(choice, Date.now())
    case 'for':
      return String(form.get('duration')).trim()
    case 'at':
      return new Date(String(form.get('time'))).toISOString()
    default:
      return choice
  }
}

/** Returns the time of an end that was chosen, and the next midnight in the operator's own time zone for the end of the day. */
function endOf(choice: string, atMs: number): string {
  const minutes = MINUTES[choice]
  const now = new Date(atMs)
  const end = minutes === undefined ? new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1) : new Date(atMs + minutes * MINUTE_MS)
  return end.toISOString()
}
