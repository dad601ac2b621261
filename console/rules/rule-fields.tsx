import type { Signal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { formatNumber } from '../format.ts'
import { Field } from '../parts/field.tsx'
import { type CatalogRule, usePolicyCatalog } from './policy-catalog.ts'

/** A rule that an operator is choosing, by names. */
export interface RuleChoice {
  readonly policy: Signal<string>
  readonly rule: Signal<string>
}

interface RuleFieldsProps {
  readonly choice: RuleChoice
  readonly errors: { readonly policy?: string | undefined; readonly rule?: string | undefined }
  /** Whether no policy, or none of its rules, is a choice too. */
  readonly isFilter?: boolean
}

/** As many as anybody reads. */
const SUGGESTIONS = 50

/** A field for a policy, with suggestions while one types, and one for a rule of it. */
export function RuleFields({ choice: { policy, rule }, errors, isFilter = false }: RuleFieldsProps) {
  const catalog = usePolicyCatalog()
  const id = useId()
  const rules = catalog?.get(policy.value)?.rules ?? []
  const choosePolicy = (text: string): void => {
    policy.value = text
    const found = catalog?.get(text)?.rules ?? []
    if (!found.some(({ name }) => name === rule.value)) rule.value = !isFilter && found.length === 1 ? found[0]!.name : ''
  }
  return (
    <>
      <Field label="Policy" error={errors.policy} hint={catalog === undefined ? 'Loading the names…' : undefined}>
        {(control) => (
          <>
            <input
              {...control}
              name="policy"
              list={`${id}-policies`}
              value={policy.value}
              placeholder={isFilter ? 'All policies' : placeholderFor(catalog?.size)}
              autocomplete="off"
              spellcheck={false}
              onInput={({ currentTarget }) => choosePolicy(currentTarget.value)}
            />
            <datalist id={`${id}-policies`}>
              {suggestionsFor(policy.value, catalog?.keys()).map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field label="Rule" error={errors.rule}>
        {(control) => (
          <select
            {...control}
            name="rule"
            value={rule.value}
            disabled={rules.length === 0}
            onChange={({ currentTarget }) => (rule.value = currentTarget.value)}
          >
            <option value="">{isFilter ? 'All rules' : rules.length === 0 ? 'Choose a policy first' : 'Choose a rule'}</option>
            {rules.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
    </>
  )
}

/** The rule that is chosen, if the active bundle has it. */
export function useChosenRule({ policy, rule }: RuleChoice): CatalogRule | undefined {
  return usePolicyCatalog()
    ?.get(policy.value)
    ?.rules.find(({ name }) => name === rule.value)
}

function placeholderFor(count: number | undefined): string | undefined {
  return count === undefined ? undefined : `${formatNumber(count)} in the bundle`
}

/** The names that contain what was typed; those that begin with it come first. */
function suggestionsFor(typed: string, names: Iterable<string> = []): readonly string[] {
  const text = typed.toLowerCase()
  const beginning: string[] = []
  const containing: string[] = []
  for (const name of names) {
    const place = name.toLowerCase().indexOf(text)
    if (place === 0) beginning.push(name)
    else if (place > 0) containing.push(name)
    if (beginning.length >= SUGGESTIONS) break
  }
  return [...beginning, ...containing].slice(0, SUGGESTIONS)
}
