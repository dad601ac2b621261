import { useId } from 'preact/hooks'
import { formatNumber } from '../format.ts'
import { Field } from '../parts/field.tsx'
import { ruleWords } from '../policy-words.ts'
import { status } from '../status.ts'
import { type ChoiceProblems, chosenRule, type RuleChoice } from './rule-choice.ts'

interface RuleFieldsProps {
  readonly choice: RuleChoice
  readonly problems: ChoiceProblems
  /** Whether the operator may also choose no policy, or none of its rules. */
  readonly isFilter?: boolean
}

/** A field for a policy, with suggestions while typing, and a field for one of its rules. */
export function RuleFields({ choice, problems, isFilter = false }: RuleFieldsProps) {
  const { policy, rule, found, suggestions } = choice
  const id = useId()
  const rules = found.value?.rules ?? []
  const chosen = isFilter ? undefined : chosenRule(choice)
  return (
    <>
      <Field label="Policy" error={problems.policy}>
        {(control) => (
          <>
            <input
              {...control}
              name="policy"
              list={`${id}-policies`}
              value={policy.value}
              placeholder={isFilter ? 'All policies' : placeholderFor(status.value?.bundle?.policies)}
              maxLength={256}
              autocomplete="off"
              spellcheck={false}
              onInput={({ currentTarget }) => (policy.value = currentTarget.value)}
            />
            <datalist id={`${id}-policies`}>
              {suggestions.value.map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field label="Rule" error={problems.rule} hint={chosen && ruleWords(chosen)}>
        {(control) => (
          <select
            {...control}
            name="rule"
            value={chosen?.name ?? rule.value}
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

function placeholderFor(count: number | undefined): string | undefined {
  return count === undefined ? undefined : `${formatNumber(count)} in the bundle`
}
