import { Field } from '../parts/field.tsx'

/** Why an operator changes something. */
export function ReasonField({ error }: { readonly error?: string | undefined }) {
  return (
    <Field label="Reason" hint="It is logged with your name." error={error}>
      {(control) => <input {...control} name="reason" required maxLength={1000} autocomplete="off" />}
    </Field>
  )
}

export function readReason(form: FormData): string {
  return String(form.get('reason'))
}
