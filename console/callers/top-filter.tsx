import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { address, addressOf } from '../navigation.ts'
import { usePolicyCatalog } from '../rules/policy-catalog.ts'
import { RuleFields } from '../rules/rule-fields.tsx'

/** A policy, and perhaps a rule of it, that the address names; empty: any. */
export interface TopFilter {
  readonly policy: string
  readonly rule: string
}

export function topFilter(): TopFilter {
  const { parameters } = address.value
  return { policy: parameters.get('policy') ?? '', rule: parameters.get('rule') ?? '' }
}

/** Shows callers of one policy or of one rule only. It is in the address, so that it can be kept and passed on. */
export function TopFilterFields({ error }: { readonly error: string | undefined }) {
  const { policy: filteredPolicy, rule: filteredRule } = topFilter()
  const choice = { policy: useSignal(filteredPolicy), rule: useSignal(filteredRule) }
  const catalog = usePolicyCatalog()
  const { policy, rule } = { policy: choice.policy.value, rule: choice.rule.value }
  useEffect(() => {
    choice.policy.value = filteredPolicy
    choice.rule.value = filteredRule
  }, [filteredPolicy, filteredRule, choice.policy, choice.rule])
  useEffect(() => {
    // Half a name is none yet.
    if (policy !== '' && catalog?.has(policy) !== true) return
    const parameters = { ...(policy !== '' && { policy }), ...(policy !== '' && rule !== '' && { rule }) }
    location.replace(addressOf('callers', parameters))
  }, [policy, rule, catalog])
  return (
    <div class="bar">
      <RuleFields choice={choice} errors={{ policy: error }} isFilter />
    </div>
  )
}
