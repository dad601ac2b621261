import { useSignal } from '@preact/signals'
import type { RuleCaller } from '../caller-values.ts'
import { Form } from '../parts/form.tsx'
import { CallerFields, readCaller } from '../rules/caller-fields.tsx'
import { type ChoiceProblems, choiceProblems, chosenRule, lookUp, useRuleChoice } from '../rules/rule-choice.ts'
import { RuleFields } from '../rules/rule-fields.tsx'

/** A form for the counters of one rule: of any caller, or those that all callers share. */
export function CallerLookup({ onFound }: { readonly onFound: (caller: RuleCaller) => void }) {
  const choice = useRuleChoice('', '')
  const rule = chosenRule(choice)
  const problems = useSignal<ChoiceProblems & { readonly values?: string }>({})
  const submit = async (form: FormData): Promise<void> => {
    if (rule === undefined) {
      await lookUp(choice)
      problems.value = chosenRule(choice) === undefined ? choiceProblems(choice) : {}
      return
    }
    const values = readCaller(rule.limit_keys, form, {})
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
            values={{}}
            credentialHint="The credential itself: a digest does not find its counter."
            error={problems.value.values}
          />
        )}
      </div>
    </Form>
  )
}
