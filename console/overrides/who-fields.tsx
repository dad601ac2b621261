import { useSignal } from '@preact/signals'
import type { CallerValues, RuleJson } from '../../src/admin/api/types.ts'
import { CallerFields, readCaller } from '../rules/caller-fields.tsx'

interface WhoFieldsProps {
  readonly rule: RuleJson
  readonly values: CallerValues | undefined
  readonly error: string | undefined
}

/** Fields for one caller, with a value for each of the rule's keys, or for all callers. */
export function WhoFields({ rule, values, error }: WhoFieldsProps) {
  const isForAll = useSignal(false)
  if (rule.limit_keys.length === 0)
    return <p class="hint">This rule has one counter for all callers, so that the override is for all of them.</p>
  return (
    <fieldset>
      <legend>Who it is for</legend>
      <div class="choices">
        <label>
          <input type="radio" name="who" value="one" checked={!isForAll.value} onChange={() => (isForAll.value = false)} />
          One caller
        </label>
        <label>
          <input type="radio" name="who" value="all" checked={isForAll.value} onChange={() => (isForAll.value = true)} />
          All callers of the rule
        </label>
      </div>
      {!isForAll.value && (
        <CallerFields
          keys={rule.limit_keys}
          values={values ?? {}}
          credentialHint="The credential, or the digest that this page shows for it."
          error={error}
        />
      )}
    </fieldset>
  )
}

/** Returns the members of the request's body that say whom the override is for. */
export function readWho(
  { limit_keys: keys }: RuleJson,
  form: FormData,
  initial: CallerValues | undefined,
): { readonly all: true } | { readonly values: CallerValues } {
  return keys.length === 0 || form.get('who') === 'all' ? { all: true } : { values: readCaller(keys, form, initial ?? {}) }
}
