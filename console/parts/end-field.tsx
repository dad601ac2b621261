import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { nowMs } from '../clock.ts'
import { formatZone } from '../format.ts'
import { Field } from './field.tsx'

interface EndFieldProps {
  readonly legend: string
  /** The name of the choice in the form. */
  readonly name: string
  /** Values and their texts. `at` asks for a time, which is `time` in the form. */
  readonly choices: readonly (readonly [value: string, text: string])[]
  readonly initial: string
  /** The present end may stay as it is: `same` is then a choice, and the initial one. */
  readonly canStay: boolean
  readonly error: string | undefined
  /** Returns what is shown below a choice other than `at`. */
  readonly children: (choice: string) => ComponentChildren
}

/** Fields for the time when something ends: usual lengths at one click, or any time. */
export function EndField({ legend, name, choices, initial, canStay, error, children }: EndFieldProps) {
  const choice = useSignal(canStay ? 'same' : initial)
  const id = useId()
  const all = canStay ? ([['same', 'As it is'], ...choices] as const) : choices
  return (
    <fieldset aria-describedby={error === undefined ? undefined : id}>
      <legend>{legend}</legend>
      <div class="choices">
        {all.map(([value, text]) => (
          <label key={value}>
            <input type="radio" name={name} value={value} checked={choice.value === value} onChange={() => (choice.value = value)} />
            {text}
          </label>
        ))}
      </div>
      {choice.value === 'at' ? (
        <Field label={`Time, in your time zone (now ${formatZone(nowMs.value)})`}>
          {(control) => <input {...control} type="datetime-local" name="time" required step={1} class="short" />}
        </Field>
      ) : (
        children(choice.value)
      )}
      {error !== undefined && (
        <p class="error" id={id}>
          {error}
        </p>
      )}
    </fieldset>
  )
}
