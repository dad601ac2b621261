import { useSignalEffect } from '@preact/signals'
import { address, addressOf } from '../navigation.ts'
import { useRuleChoice } from '../rules/rule-choice.ts'
import { RuleFields } from '../rules/rule-fields.tsx'

/** A policy, and perhaps a rule of it; empty: any. */
export interface TopFilter {
  readonly policy: string
  readonly rule: string
}

/** It is in the address, so that it can be kept and passed on. */
export function topFilter(): TopFilter {
  const { parameters } = address.value
  return { policy: parameters.get('policy') ?? '', rule: parameters.get('rule') ?? '' }
}

/** Shows callers of one policy or of one rule only. */
export function TopFilterFields({ filter, problem }: { readonly filter: TopFilter; readonly problem: string | undefined }) {
  const choice = useRuleChoice(filter.policy, filter.rule)
  useSignalEffect(() => {
    const { policy, rule, found, lookedUp } = choice
    // Half a name is none yet, and one that is not in the bundle is asked for only by an address.
    if (lookedUp.value !== policy.value || (policy.value !== '' && found.value === undefined)) return
    const hasRule = found.value?.rules.some(({ name }) => name === rule.value) === true
    const parameters = { ...(policy.value !== '' && { policy: policy.value }), ...(hasRule && { rule: rule.value }) }
    // Not where the operator has just left.
    if (location.hash.startsWith(addressOf('callers'))) location.replace(addressOf('callers', parameters))
  })
  return (
    <div class="bar">
      <RuleFields choice={choice} problems={problem === undefined ? {} : { policy: problem }} isFilter />
    </div>
  )
}
