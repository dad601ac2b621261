import { fiveRules, policy, rule } from '../support/bundle.mjs'

const byKey = (...limit) => [policy('p', '/api', [rule('per-key', ['header:x-api-key'], ...limit)])]
/** A token that nobody gets back while this runs. */
const ONE_TOKEN = [1, 1e-6]

/** What all builds decide: so many decisions before, and in each slice. Where requests are to be rejected, the warm-up takes each caller's token. */
export const CASES = [
  { id: 'allowed', title: 'allowed, 1 rule', policies: byKey(), callers: 1000, action: 'allow', warmUp: 120_000, slice: 25_000 },
  {
    id: 'five-rules',
    title: 'allowed, 5 rules, 3 of them by JWT',
    policies: [policy('p', '/api', fiveRules())],
    callers: 1000,
    action: 'allow',
    warmUp: 30_000,
    slice: 6000,
  },
  {
    id: 'rejected',
    title: 'rejected, 1,000 callers',
    policies: byKey(...ONE_TOKEN),
    callers: 1000,
    action: 'reject',
    warmUp: 100_000,
    slice: 20_000,
  },
  {
    id: 'flood',
    title: 'rejected, 60,000 callers in turn',
    policies: byKey(...ONE_TOKEN),
    callers: 60_000,
    action: 'reject',
    warmUp: 100_000,
    slice: 20_000,
  },
]
