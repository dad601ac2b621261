import { Field } from '../parts/field.tsx'

interface ReasonFieldProps {
  readonly error?: string | undefined
  /** Whether the field gets the focus when its dialog opens. */
  readonly isFirst?: boolean
}

/** A field for an operator's reason for a change. */
export function ReasonField({ error, isFirst = false }: ReasonFieldProps) {
  return (
    <Field label="Reason" hint="It is logged with your name." error={error}>
      {(control) => <input {...control} name="reason" required maxLength={1000} autocomplete="off" autofocus={isFirst} />}
    </Field>
  )
}

export function readReason(form: FormData): string {
  return String(form.get('reason'))
}
