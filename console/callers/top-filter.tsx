import { useSignalEffect } from '@preact/signals'
import { address, addressOf } from '../navigation.ts'
import { useRuleChoice } from '../rules/rule-choice.ts'
import { RuleFields } from '../rules/rule-fields.tsx'

/** A policy, and perhaps one of its rules; an empty name means any. */
export interface TopFilter {
  readonly policy: string
  readonly rule: string
}

/** Reads the filter from the address, so that it can be bookmarked and shared. */
export function topFilter(): TopFilter {
  const { parameters } = address.value
  return { policy: parameters.get('policy') ?? '', rule: parameters.get('rule') ?? '' }
}

/** Restricts the lists to callers of one policy or of one rule. */
export function TopFilterFields({ filter, problem }: { readonly filter: TopFilter; readonly problem: string | undefined }) {
  const choice = useRuleChoice(filter.policy, filter.rule)
  useSignalEffect(() => {
    const { policy, rule, found, lookedUp } = choice
    // A half-typed name is ignored, and a name that is not in the bundle is used only if the address has it.
    if (lookedUp.value !== policy.value || (policy.value !== '' && found.value === undefined)) return
    const hasRule = found.value?.rules.some(({ name }) => name === rule.value) === true
    const parameters = { ...(policy.value !== '' && { policy: policy.value }), ...(hasRule && { rule: rule.value }) }
    // The operator may have just left this view.
    if (location.hash.startsWith(addressOf('callers'))) location.replace(addressOf('callers', parameters))
  })
  return (
    <div class="bar">
      <RuleFields choice={choice} problems={problem === undefined ? {} : { policy: problem }} isFilter />
    </div>
  )
}
