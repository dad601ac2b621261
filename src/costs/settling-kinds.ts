import type { SettlingRecord } from './cost.ts'

// A number always stands for the same kind: tokens outlive the program that issued them.

/** To the tokens of prompt and completion. */
export const SETTLED_TO_TOKENS: SettlingRecord = Object.freeze({ kind: 1, numbers: [] })
/** To nothing, when the request is over. */
export const RELEASED: SettlingRecord = Object.freeze({ kind: 2, numbers: [] })
/** To what the tokens cost, by the four prices of a model. */
export const PRICED = 3
/** To what the caller says that it cost. */
export const SETTLED_TO_COST: SettlingRecord = Object.freeze({ kind: 4, numbers: [] })
