import { nowMs } from '../clock.ts'
import { EndField } from '../parts/end-field.tsx'
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
  return (
    <EndField legend="Ends" name="until" choices={CHOICES} initial="1h" canStay={current !== undefined} error={error}>
      {(choice) =>
        choice === 'for' ? (
          <Field label="Duration" hint="Such as 90s, 30m, 6h or 7d.">
            {(control) => <input {...control} name="duration" required autocomplete="off" class="short" />}
          </Field>
        ) : (
          <p class="hint">It ends at {choice === 'same' ? <Until until={current!} /> : <Moment at={endOf(choice, nowMs.value)} />}.</p>
        )
      }
    </EndField>
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
