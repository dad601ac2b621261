import type { CallerValues } from '../../src/admin/api/types.ts'
import { isCredential, shownValue, typedValue } from '../caller-values.ts'
import { Field } from '../parts/field.tsx'

interface CallerFieldsProps {
  /** The rule's limit keys. */
  readonly keys: readonly string[]
  /** Values that are already filled in. */
  readonly values: CallerValues
  /** Hint for the fields of credentials. */
  readonly credentialHint: string
  readonly error: string | undefined
}

/** Shows a field for each value that names a caller of a rule. */
export function CallerFields({ keys, values, credentialHint, error }: CallerFieldsProps) {
  return (
    <>
      {keys.map((key) => (
        <Field
          key={key}
          label={key}
          hint={isCredential(key) ? credentialHint : undefined}
          error={keyOfProblem(keys, error) === key ? error : undefined}
        >
          {(control) => (
            <input
              {...control}
              name={fieldName(key)}
              defaultValue={shownValue(values[key] ?? '')}
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
              class="code"
            />
          )}
        </Field>
      ))}
    </>
  )
}

/** Returns the first key that the API's message complains about, or the last key if it names none. */
function keyOfProblem(keys: readonly string[], error: string | undefined): string | undefined {
  if (error === undefined) return undefined
  return keys.find((key) => error.includes(`${key} is `)) ?? keys.at(-1)
}

/** Returns the values of the form for the API. A value that was not edited is sent exactly as it was received. */
export function readCaller(keys: readonly string[], form: FormData, initial: CallerValues): CallerValues {
  const read = (key: string): string => {
    const text = String(form.get(fieldName(key)) ?? '')
    const known = initial[key]
    return known !== undefined && shownValue(known) === text ? known : typedValue(key, text)
  }
  return Object.fromEntries(keys.map((key) => [key, read(key)]))
}

function fieldName(key: string): string {
  return `value ${key}`
}
