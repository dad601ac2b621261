import { chargedTokens, type TokenWeights } from '../llm/usage.ts'
import { FULLY_PRICED, PRICED, RELEASED, SETTLED_TO_COST, SETTLED_TO_TOKENS, type SettlingRecord, type Usage, WEIGHTED } from './cost.ts'
import { weightsFrom } from './llm-costs.ts'
import { ModelPrice, settledMoney } from './price-table.ts'

type Settle = (amount: number, usage: Usage, numbers: readonly number[]) => number | undefined

const KINDS: Readonly<Record<number, Settle>> = {
  [SETTLED_TO_TOKENS.kind]: (_amount, usage) => settledTokens(usage, undefined),
  [RELEASED.kind]: () => 0,
  [PRICED]: (amount, usage, numbers) => ModelPrice.ofFour(numbers).settled(amount, usage),
  [SETTLED_TO_COST.kind]: (_amount, usage) => settledMoney(usage),
  [WEIGHTED]: (_amount, usage, numbers) => settledTokens(usage, weightsFrom(numbers)),
  [FULLY_PRICED]: (amount, usage, numbers) => ModelPrice.of(numbers).settled(amount, usage),
}

export function isSettlingKind(kind: number): boolean {
  return Object.hasOwn(KINDS, kind)
}

/** Returns the actual amount, or the amount as it was taken if the usage does not say. */
export function settledBy({ kind, numbers }: SettlingRecord, amount: number, usage: Usage): number {
  return KINDS[kind]!(amount, usage, numbers) ?? amount
}

function settledTokens(usage: Usage, weights: TokenWeights | undefined): number | undefined {
  if (usage === 'nothing' || usage === 'unfinished') return 0
  return usage === 'unknown' || usage.tokens === undefined ? undefined : chargedTokens(usage.tokens, weights)
}
