import type { Cost, RequestFacts } from './cost.ts'
import { RELEASED } from './settling-kinds.ts'

/** One request in flight: held while it is, and released at its end, whatever it used. A question at no cost only checks. */
export const HOLD: Cost = Object.freeze({
  needsBody: false,
  isLeasable: false,
  of: ({ given }: RequestFacts) => (given === 0 ? 0 : 1),
  settling: Object.freeze({
    at: 'end',
    applies: ({ given }: RequestFacts) => given !== 0,
    settled: () => 0,
    record: RELEASED,
  }),
} satisfies Cost)
