import { useSignal } from '@preact/signals'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import type { KeyLabelsJson } from '../../src/admin/api/key-types.ts'
import { Field } from '../parts/field.tsx'

const MAX_LABELS = 32

interface LabelFieldsProps {
  /** Labels to begin with. */
  readonly labels: KeyLabelsJson
  /** Names of labels that rules of the active bundle read. */
  readonly suggested: readonly string[]
  readonly error: string | undefined
}

interface Row {
  readonly number: number
  readonly name: string
  readonly value: string
}

/** A row with a name and a value for each label of a key. */
export function LabelFields({ labels, suggested, error }: LabelFieldsProps) {
  const id = useId()
  const rows = useSignal<readonly Row[]>(firstRows(labels))
  const host = useRef<HTMLFieldSetElement>(null)
  const added = useSignal<number | undefined>(undefined)
  useLayoutEffect(() => {
    if (added.value !== undefined) host.current!.querySelector<HTMLElement>(`[data-row="${added.value}"] input`)?.focus()
  }, [added.value])
  const add = (): void => {
    const number = rows.value.at(-1)!.number + 1
    rows.value = [...rows.value, { number, name: '', value: '' }]
    added.value = number
  }
  const remove = (number: number): void => {
    rows.value = rows.value.filter((row) => row.number !== number)
    host.current!.querySelector<HTMLElement>('.add')!.focus()
  }
  return (
    <fieldset ref={host} aria-describedby={error === undefined ? undefined : `${id}-error`}>
      <legend>Labels</legend>
      <datalist id={`${id}-names`}>
        {suggested.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {rows.value.map(({ number, name, value }, i) => (
        <div key={number} class="label-row" data-row={number}>
          <Field label={`Name ${i + 1}`}>
            {(control) => (
              <input
                {...control}
                name="label"
                list={`${id}-names`}
                defaultValue={name}
                placeholder="team"
                required
                maxLength={64}
                autocomplete="off"
                autocapitalize="off"
                spellcheck={false}
              />
            )}
          </Field>
          <Field label={`Value ${i + 1}`}>
            {(control) => (
              <input
                {...control}
                name="value"
                defaultValue={value}
                placeholder="search"
                required
                maxLength={256}
                autocomplete="off"
                autocapitalize="off"
                spellcheck={false}
              />
            )}
          </Field>
          {rows.value.length > 1 && (
            <button type="button" onClick={() => remove(number)}>
              Remove<span class="unseen"> label {i + 1}</span>
            </button>
          )}
        </div>
      ))}
      {suggested.length > 0 && <p class="hint">Rules of the active bundle read {suggested.slice(0, 8).join(', ')}.</p>}
      {error !== undefined && (
        <p class="error" id={`${id}-error`}>
          {error}
        </p>
      )}
      <div>
        <button
          type="button"
          class="add"
          aria-disabled={rows.value.length >= MAX_LABELS}
          onClick={() => rows.value.length < MAX_LABELS && add()}
        >
          Add a label
        </button>
      </div>
    </fieldset>
  )
}

function firstRows(labels: KeyLabelsJson): readonly Row[] {
  const rows = Object.entries(labels).map(([name, value], number) => ({ number, name, value }))
  return rows.length === 0 ? [{ number: 0, name: '', value: '' }] : rows
}

/** A label occurs twice. */
export class LabelError extends Error {}

/** Returns the labels that were typed. Throws a LabelError. */
export function readLabels(form: FormData): KeyLabelsJson {
  const values = form.getAll('value').map(String)
  const labels = new Map<string, string>()
  for (const [i, typed] of form.getAll('label').entries()) {
    const name = String(typed).trim()
    if (labels.has(name)) throw new LabelError(`${name} is there twice: a key has one value for each label.`)
    labels.set(name, values[i]!.trim())
  }
  return Object.fromEntries(labels)
}
