import { expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { Edge } from '../support/service/edge.ts'

/** Specification: Resources and their fields; the fields' types. A bundle that breaks one is refused whole, and by name. */

/** What the service has against a bundle. It starts with it, and is not ready. */
async function problemsOf(bundle: object): Promise<unknown> {
  const edge = await Edge.start({ bundle })
  try {
    expect((await edge.get('/readyz')).status).toBe(503)
    return edge.log.find(({ event }) => event === 'bundle_refused')?.['problems']
  } finally {
    await edge.stop()
  }
}

/** What it has against a rule in an otherwise good bundle. */
function problemsOfRule(rule: object): Promise<unknown> {
  return problemsOf(bundle(1, policy('p', { rules: [rule] })))
}

const RULE = 'policies[0].spec.rules[0]'

test('[bundle-3] a bundle carries bundle_version', async () => {
  expect(await problemsOf({ policies: [] })).toEqual([expect.stringMatching(/^bundle_version: .*missing/)])
})

test('[policy-6] id is a string', async () => {
  const nameless = { id: 7, spec: { rules: [] } }
  expect(await problemsOf({ bundle_version: 1, policies: [nameless] })).toEqual([expect.stringMatching(/^policies\[0\]\.id: .*got 7/)])
})

test('[policy-7] spec.mode is shadow or enforce, and nothing else', async () => {
  const odd = policy('p', { mode: 'observe', rules: [] })
  const expected = 'policies[0].spec.mode: expected "enforce" or "shadow", got "observe"'
  expect(await problemsOf(bundle(1, odd))).toEqual([expected])
})

test('[policy-8] spec.selector is an object, and its pathPrefix a string', async () => {
  const list = { id: 'p', spec: { selector: ['/api'], rules: [] } }
  const number = { id: 'q', spec: { selector: { pathPrefix: 5 }, rules: [] } }
  expect(await problemsOf({ bundle_version: 1, policies: [list, number] })).toEqual([
    expect.stringMatching(/^policies\[0\]\.spec\.selector: expected an object/),
    expect.stringMatching(/^policies\[1\]\.spec\.selector\.pathPrefix: .*got 5/),
  ])
})

test('[policy-9] spec.rules is an array', async () => {
  const one = { id: 'p', spec: { rules: bucketRule('r', [], 1) } }
  const expected = 'policies[0].spec.rules: expected a list of rules, got an object'
  expect(await problemsOf({ bundle_version: 1, policies: [one] })).toEqual([expected])
})

test('[rule-5] name is a string', async () => {
  const rule = { ...bucketRule('r', [], 1), name: true }
  expect(await problemsOfRule(rule)).toEqual([expect.stringMatching(/^policies\[0\]\.spec\.rules\[0\]\.name: .*got true/)])
})

test('[rule-6] limit_keys is an array of strings, each a descriptor key', async () => {
  const text = { ...bucketRule('r', [], 1), limit_keys: 'ip:address' }
  expect(await problemsOfRule(text)).toEqual([`${RULE}.limit_keys: expected a list of descriptor keys, got "ip:address"`])
  const unknown = bucketRule('r', ['ip:address', 'body:sid'], 1)
  expect(await problemsOfRule(unknown)).toEqual([
    expect.stringContaining(`${RULE}.limit_keys[1]: expected bearer, jwt:<claim>, header:<name>`),
  ])
})

test('[rule-7] algorithm is token_bucket or token_bucket_llm', async () => {
  const rule = { ...bucketRule('r', [], 1), algorithm: 'leaky_bucket' }
  expect(await problemsOfRule(rule)).toEqual([
    expect.stringMatching(/rules\[0\]\.algorithm: expected .*"token_bucket".*"token_bucket_llm".*, got "leaky_bucket"/),
  ])
})

test('[rule-8] algorithm_config depends on the algorithm: one does not do for the other', async () => {
  const swapped = { ...bucketRule('r', [], 1), algorithm_config: { tokens_per_minute: 60 } }
  expect(await problemsOfRule(swapped)).toEqual([
    expect.stringMatching(/algorithm_config\.tokens_per_second: .*missing/),
    expect.stringMatching(/algorithm_config\.burst: .*missing/),
    expect.stringMatching(/algorithm_config: unknown field "tokens_per_minute"/),
  ])
  const other = llmRule('r', [], { tokens_per_second: 1, burst: 1 })
  expect(await problemsOfRule(other)).toEqual([
    expect.stringContaining('at least one of tokens_per_minute and tokens_per_day'),
    expect.stringMatching(/algorithm_config: unknown field "tokens_per_second"/),
    expect.stringMatching(/algorithm_config: unknown field "burst"/),
  ])
})

test.each(['tokens_per_second', 'burst'])('[bucket-1] tokens_per_second and burst are numbers: %s is no text', async (field) => {
  const rule = { ...bucketRule('r', [], 1), algorithm_config: { tokens_per_second: 1, burst: 1, [field]: '10' } }
  expect(await problemsOfRule(rule)).toEqual([expect.stringMatching(new RegExp(`\\.algorithm_config\\.${field}: .*got "10"`))])
})

const LLM_FIELDS = ['tokens_per_minute', 'tokens_per_day', 'burst_tokens', 'max_completion_tokens']

test.each(LLM_FIELDS)('[llm-1] the budgets of token_bucket_llm are integers: %s is no fraction', async (field) => {
  const rule = llmRule('r', [], { tokens_per_minute: 60, [field]: 1.5 })
  expect(await problemsOfRule(rule)).toEqual([expect.stringMatching(new RegExp(`\\.algorithm_config\\.${field}: .*got 1\\.5`))])
})
