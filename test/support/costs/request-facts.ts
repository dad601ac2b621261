import type { RequestFacts } from '../../../src/costs/cost.ts'

/** Facts of a request that says nothing, with the exceptions given. */
export function requestFacts(facts: Partial<RequestFacts> = {}): RequestFacts {
  return { path: '/', body: undefined, given: 1, isGiven: false, isSettledLater: false, headerText: () => undefined, ...facts }
}
