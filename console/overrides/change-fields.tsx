import { useSignal } from '@preact/signals'
import type { OverrideJson, RuleJson } from '../../src/admin/api/types.ts'
import { Field } from '../parts/field.tsx'
import { settableFields, settableLabel } from '../rules/settable-fields.ts'
import { status } from '../status.ts'

const KINDS = [
  ['multiply', 'Multiply the limit'],
  ['set', 'Set limits'],
  ['unlimited', 'No limit'],
  ['block', 'Block'],
] as const

/** How an override changes its rule. */
type CurrentChange = Pick<OverrideJson, 'multiply' | 'set' | 'unlimited' | 'block' | 'cut_streams'>

interface ChangeFieldsProps {
  readonly rule: RuleJson
  readonly error: string | undefined
  /** The change that is to be edited. */
  readonly current?: CurrentChange
}

/** Fields that say how an override changes this rule. */
export function ChangeFields({ rule, error, current = {} }: ChangeFieldsProps) {
  const fields = settableFields(rule)
  const kinds = KINDS.filter(([kind]) => fields.length > 0 || kind === 'unlimited' || kind === 'block')
  const chosen = useSignal<string>((kinds.find(([kind]) => current[kind] !== undefined) ?? kinds[0]!)[0])
  const isChosen = (kind: string): boolean => chosen.value === kind
  return (
    <fieldset>
      <legend>What changes</legend>
      <div class="choices">
        {kinds.map(([kind, text]) => (
          <label key={kind}>
            <input type="radio" name="change" value={kind} checked={isChosen(kind)} onChange={() => (chosen.value = kind)} />
            {text}
          </label>
        ))}
      </div>
      {isChosen('multiply') && (
        <Field label="Multiply by" hint="Rate and size grow together. Usage so far counts against the new limit." error={error}>
          {(control) => (
            <input
              {...control}
              name="factor"
              defaultValue={String(current.multiply ?? 2)}
              required
              inputMode="decimal"
              autocomplete="off"
              class="short"
            />
          )}
        </Field>
      )}
      {isChosen('set') && (
        <div class="columns">
          {fields.map((field) => (
            <Field
              key={field}
              label={settableLabel(rule, field)}
              hint={bundleText(rule, field)}
              error={field === fieldOfProblem(fields, error) ? error : undefined}
            >
              {(control) => (
                <input
                  {...control}
                  name={`set ${field}`}
                  defaultValue={String(current.set?.[field] ?? '')}
                  inputMode={field === 'rate' ? 'text' : 'decimal'}
                  autocomplete="off"
                />
              )}
            </Field>
          ))}
        </div>
      )}
      {isChosen('unlimited') && <p class="hint">The rule limits nothing for as long as the override lasts.</p>}
      {isChosen('block') && <BlockFields isCut={current.cut_streams ?? false} />}
      {error !== undefined && (isChosen('unlimited') || isChosen('block')) && <p class="error">{error}</p>}
    </fieldset>
  )
}

/** Says what a block does, and asks what becomes of open streams where there are any: only a reverse proxy has them. */
function BlockFields({ isCut }: { readonly isCut: boolean }) {
  const rejects = 'Every request that the rule covers gets 403, before anything is counted.'
  if (status.value?.mode !== 'reverse_proxy')
    return <p class="hint">{rejects} This instance is a decision service: streams that the gateway has open go on until they end.</p>
  return (
    <>
      <p class="hint">{rejects}</p>
      <div class="choices">
        <label>
          <input type="checkbox" name="cut_streams" defaultChecked={isCut} />
          Cut open streams
        </label>
      </div>
      <p class="hint">Otherwise event streams and WebSockets that are open go on until they end by themselves, and use tokens.</p>
    </>
  )
}

/** Returns the member of the request's body that describes the change. Limits whose fields are empty are those of the bundle. */
export function readChange(form: FormData): CurrentChange {
  const kind = String(form.get('change'))
  if (kind === 'multiply') return { multiply: number(form.get('factor')) as number }
  if (kind === 'unlimited') return { unlimited: true }
  if (kind === 'block')
    return status.value?.mode === 'reverse_proxy' ? { block: true, cut_streams: form.has('cut_streams') } : { block: true }
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

function bundleText({ algorithm_config: config }: RuleJson, field: string): string {
  const value = config[field]
  return value === undefined ? 'Empty: as in the bundle.' : `Empty: ${value}, as in the bundle.`
}

function fieldOfProblem(fields: readonly string[], error: string | undefined): string | undefined {
  if (error === undefined) return undefined
  return fields.find((field) => error.includes(field)) ?? fields.at(-1)
}
