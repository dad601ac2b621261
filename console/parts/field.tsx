import type { Signal } from '@preact/signals'
import type { ComponentChildren, JSX } from 'preact'
import { useId } from 'preact/hooks'

interface FieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  /** Describes what is wrong with the control's value. */
  readonly error?: string | undefined
  /** Renders the control. The given properties must be spread onto an input, a select or a textarea. */
  readonly children: (control: ControlProps) => JSX.Element
}

interface ControlProps {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': 'true' | undefined
}

/** A control with its label, a hint what to enter, and its error. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId()
  const notes = [hint !== undefined && `${id}-hint`, error !== undefined && `${id}-error`].filter(Boolean).join(' ')
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': notes === '' ? undefined : notes, 'aria-invalid': error === undefined ? undefined : 'true' })}
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error !== undefined && (
        <p class="error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </div>
  )
}

interface FilterFieldProps {
  readonly placeholder: string
  readonly value: Signal<string>
  /** Called after each change of the value. */
  readonly onChange?: () => void
}

/** A field that narrows the list below it as one types. */
export function FilterField({ placeholder, value, onChange }: FilterFieldProps) {
  return (
    <Field label="Filter">
      {(control) => (
        <input
          {...control}
          type="search"
          placeholder={placeholder}
          value={value}
          onInput={({ currentTarget }) => {
            value.value = currentTarget.value
            onChange?.()
          }}
        />
      )}
    </Field>
  )
}
