import type { SpendingRule } from '../../src/admin/api/instance-types.ts'
import { formatCompact, formatMoney } from '../format.ts'

const SMALL_MONEY = new Intl.NumberFormat('en', { maximumSignificantDigits: 2 })

/** Formats an amount of tokens, or of money in units of its currency. A request may cost much less than a hundredth of a unit. */
export function formatSpent(amount: number, unit: SpendingRule['unit']): string {
  if (unit === 'tokens') return formatCompact(amount)
  return amount > 0 && amount < 0.1 ? SMALL_MONEY.format(amount) : formatMoney(amount)
}

/** Returns a rule's name with that of its policy, because rule names are unique only within a policy. */
export function fullName({ policy, rule }: { readonly policy: string; readonly rule: string }): string {
  return `${policy} / ${rule}`
}

const COUNTED: Readonly<Record<string, string>> = { minute: 'tokens, refilled each minute', day: 'tokens, each day', budget: 'money' }

/** Says what a counter of such a rule counts. */
export function countedText(kind: string): string {
  return COUNTED[kind] ?? kind
}
