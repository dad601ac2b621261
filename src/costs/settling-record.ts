import { chargedTokens } from '../llm/usage.ts'
import { PRICED, RELEASED, SETTLED_TO_COST, SETTLED_TO_TOKENS, type SettlingRecord, type Usage } from './cost.ts'
import { ModelPrice, settledMoney } from './price-table.ts'

type Settle = (amount: number, usage: Usage, numbers: readonly number[]) => number | undefined

const KINDS: Readonly<Record<number, Settle>> = {
  [SETTLED_TO_TOKENS.kind]: (_amount, usage) => (typeof usage === 'string' ? unused(usage) : usedTokens(usage)),
  [RELEASED.kind]: () => 0,
  [PRICED]: (amount, usage, numbers) => ModelPrice.of(numbers).settled(amount, usage),
  [SETTLED_TO_COST.kind]: (_amount, usage) => settledMoney(usage),
}

export function isSettlingKind(kind: number): boolean {
  return Object.hasOwn(KINDS, kind)
}

/** Returns the actual amount, or the amount as it was taken if the usage does not say. */
export function settledBy({ kind, numbers }: SettlingRecord, amount: number, usage: Usage): number {
  return KINDS[kind]!(amount, usage, numbers) ?? amount
}

function unused(usage: 'nothing' | 'unknown'): number | undefined {
  return usage === 'nothing' ? 0 : undefined
}

function usedTokens({ tokens }: Exclude<Usage, string>): number | undefined {
  return tokens === undefined ? undefined : chargedTokens(tokens)
}
