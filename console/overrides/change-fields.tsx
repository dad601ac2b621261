import { useSignal } from '@preact/signals'
import type { RuleJson } from '../../src/admin/api/types.ts'
import { Field } from '../parts/field.tsx'
import { settableFields } from '../rules/settable-fields.ts'

const KINDS = [
  ['multiply', 'Multiply the limit'],
  ['set', 'Set limits'],
  ['unlimited', 'No limit'],
  ['block', 'Block'],
] as const

/** Fields that say how an override changes this rule. */
export function ChangeFields({ rule, error }: { readonly rule: RuleJson; readonly error: string | undefined }) {
  const fields = settableFields(rule)
  const kinds = KINDS.filter(([kind]) => fields.length > 0 || kind === 'unlimited' || kind === 'block')
  const chosen = useSignal<string>(kinds[0]![0])
  const isChosen = (kind: string): boolean => chosen.value === kind
  return (
    <fieldset>
      <legend>Change</legend>
      <div class="choices">
        {kinds.map(([kind, text]) => (
          <label key={kind}>
            <input type="radio" name="change" value={kind} checked={isChosen(kind)} onChange={() => (chosen.value = kind)} />
            {text}
          </label>
        ))}
      </div>
      {isChosen('multiply') && (
        <Field label="Times" hint="Rate and size grow together. What was spent stays spent of the new limit." error={error}>
          {(control) => <input {...control} name="factor" defaultValue="2" required inputMode="decimal" autocomplete="off" class="short" />}
        </Field>
      )}
      {isChosen('set') && (
        <div class="columns">
          {fields.map((field) => (
            <Field
              key={field}
              label={field}
              hint={currentText(rule, field)}
              error={field === fieldOfProblem(fields, error) ? error : undefined}
            >
              {(control) => (
                <input {...control} name={`set ${field}`} inputMode={field === 'rate' ? 'text' : 'decimal'} autocomplete="off" />
              )}
            </Field>
          ))}
        </div>
      )}
      {isChosen('unlimited') && <p class="hint">The rule limits nothing for as long as the override lasts.</p>}
      {isChosen('block') && (
        <p class="hint">Every request that the rule covers gets 403, before anything is counted. Open streams go on until they end.</p>
      )}
      {error !== undefined && (isChosen('unlimited') || isChosen('block')) && <p class="error">{error}</p>}
    </fieldset>
  )
}

/** Returns the member of the request's body that describes the change. Limits whose fields are empty stay unchanged. */
export function readChange(form: FormData): Record<string, unknown> {
  const kind = String(form.get('change'))
  if (kind === 'multiply') return { multiply: number(form.get('factor')) }
  if (kind !== 'set') return { [kind]: true }
  const set: Record<string, unknown> = {}
  for (const [name, value] of form) {
    if (!name.startsWith('set ') || String(value).trim() === '') continue
    const field = name.slice('set '.length)
    set[field] = field === 'rate' ? String(value).trim() : number(value)
  }
  return { set }
}

/** Text that is not a number is sent as it is, and the API says what it expected. */
function number(value: FormDataEntryValue | null): unknown {
  const text = String(value).trim()
  const found = Number(text)
  return text === '' || Number.isNaN(found) ? text : found
}

function currentText({ algorithm_config: config }: RuleJson, field: string): string {
  const current = config[field]
  return current === undefined ? 'Empty: unchanged' : `Now ${current}. Empty: unchanged.`
}

function fieldOfProblem(fields: readonly string[], error: string | undefined): string | undefined {
  if (error === undefined) return undefined
  return fields.find((field) => error.includes(field)) ?? fields.at(-1)
}
