import { useSignal } from '@preact/signals'
import type { CallerValues } from '../../src/admin/api/types.ts'
import type { RuleCaller } from '../caller-values.ts'
import { isCredential } from '../caller-values.ts'
import { Form } from '../parts/form.tsx'
import { CallerFields, readCaller } from '../rules/caller-fields.tsx'
import { type ChoiceProblems, choiceProblems, chosenRule, lookUp, useRuleChoice } from '../rules/rule-choice.ts'
import { RuleFields } from '../rules/rule-fields.tsx'

interface CallerLookupProps {
  /** Values that are already filled in. */
  readonly begun: RuleCaller
  readonly onFound: (caller: RuleCaller) => void
}

/** A form to name any caller by hand, not only those that are listed. */
export function CallerLookup({ begun, onFound }: CallerLookupProps) {
  const choice = useRuleChoice(begun.policy, begun.rule)
  const rule = chosenRule(choice)
  const problems = useSignal<ChoiceProblems & { readonly values?: string }>({})
  const known = withoutCredentials(begun.values)
  const submit = async (form: FormData): Promise<void> => {
    if (rule === undefined) {
      await lookUp(choice)
      problems.value = chosenRule(choice) === undefined ? choiceProblems(choice) : {}
      return
    }
    const values = readCaller(rule.limit_keys, form, known)
    const empty = rule.limit_keys.find((key) => values[key] === '' && !key.startsWith('descriptor:'))
    problems.value = empty === undefined ? {} : { values: `${empty} is missing.` }
    if (empty === undefined) onFound({ policy: choice.policy.value, rule: rule.name, values })
  }
  return (
    <Form action="Look up" onSubmit={submit}>
      <div class="columns">
        <RuleFields choice={choice} problems={problems.value} />
        {rule !== undefined && (
          <CallerFields
            key={`${choice.policy.value} ${rule.name}`}
            keys={rule.limit_keys}
            values={known}
            credentialHint="The credential itself: a digest does not find its counter."
            error={problems.value.values}
          />
        )}
      </div>
    </Form>
  )
}

function withoutCredentials(values: CallerValues): CallerValues {
  return Object.fromEntries(Object.entries(values).filter(([key]) => !isCredential(key)))
}
