import { expect, test } from 'vitest'
import { parseBundle } from '../../src/policy/parse.ts'
import { formatProblem } from '../../src/text/problem.ts'
import { bucketRule, bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { running } from '../support/service/running.ts'
import { untilLogged } from '../support/service/until-logged.ts'

/** Specification: Resources and their fields; the fields' types. A bundle that breaks one is refused whole, and by name. */

/** What there is against a bundle. The first test shows that the service refuses it for that. */
function problemsOf(bundle: object): string[] {
  const parsed = parseBundle(JSON.stringify(bundle))
  return parsed.ok ? [] : parsed.problems.map(formatProblem)
}

/** What there is against a rule in an otherwise good bundle. */
function problemsOfRule(rule: object): string[] {
  return problemsOf(bundle(1, policy('p', { rules: [rule] })))
}

const RULE = 'policies[0].spec.rules[0]'

test('[bundle-3] a bundle carries bundle_version: the service is not ready with one that does not, and says why', async () => {
  const edge = await running({ bundle: { policies: [] } })
  expect((await edge.get('/readyz')).status).toBe(503)
  expect(await untilLogged(edge, 'bundle_refused')).toMatchObject([{ problems: [expect.stringMatching(/^bundle_version: .*missing/)] }])
  expect(await untilLogged(edge, 'bundle_refused')).toMatchObject([
    { problems: problemsOf({ policies: [] }).map((problem) => expect.stringContaining(problem)) },
  ])
})

test('[policy-6] id is a string', () => {
  const nameless = { id: 7, spec: { rules: [] } }
  expect(problemsOf({ bundle_version: 1, policies: [nameless] })).toEqual([expect.stringMatching(/^policies\[0\]\.id: .*got 7/)])
})

test('[policy-7] spec.mode is shadow or enforce, and nothing else', () => {
  const odd = policy('p', { mode: 'observe', rules: [] })
  const expected = 'policies[0].spec.mode: expected "enforce" or "shadow", got "observe"'
  expect(problemsOf(bundle(1, odd))).toEqual([expected])
})

test('[policy-8] spec.selector is an object, and its pathPrefix a string', () => {
  const list = { id: 'p', spec: { selector: ['/api'], rules: [] } }
  const number = { id: 'q', spec: { selector: { pathPrefix: 5 }, rules: [] } }
  expect(problemsOf({ bundle_version: 1, policies: [list, number] })).toEqual([
    expect.stringMatching(/^policies\[0\]\.spec\.selector: expected an object/),
    expect.stringMatching(/^policies\[1\]\.spec\.selector\.pathPrefix: .*got 5/),
  ])
})

test('[policy-9] spec.rules is an array', () => {
  const one = { id: 'p', spec: { rules: bucketRule('r', [], 1) } }
  const expected = 'policies[0].spec.rules: expected a list of rules, got an object'
  expect(problemsOf({ bundle_version: 1, policies: [one] })).toEqual([expected])
})

test('[rule-5] name is a string', () => {
  const rule = { ...bucketRule('r', [], 1), name: true }
  expect(problemsOfRule(rule)).toEqual([expect.stringMatching(/^policies\[0\]\.spec\.rules\[0\]\.name: .*got true/)])
})

test('[rule-6] limit_keys is an array of strings, each a descriptor key', () => {
  const text = { ...bucketRule('r', [], 1), limit_keys: 'ip:address' }
  expect(problemsOfRule(text)).toEqual([`${RULE}.limit_keys: expected a list of descriptor keys, got "ip:address"`])
  const unknown = bucketRule('r', ['ip:address', 'body:sid'], 1)
  expect(problemsOfRule(unknown)).toEqual([expect.stringContaining(`${RULE}.limit_keys[1]: expected bearer, jwt:<claim>, header:<name>`)])
})

test('[rule-7] algorithm is token_bucket or token_bucket_llm', () => {
  const rule = { ...bucketRule('r', [], 1), algorithm: 'leaky_bucket' }
  expect(problemsOfRule(rule)).toEqual([
    expect.stringMatching(/rules\[0\]\.algorithm: expected .*"token_bucket".*"token_bucket_llm".*, got "leaky_bucket"/),
  ])
})

test('[rule-8] algorithm_config depends on the algorithm: one does not do for the other', () => {
  const swapped = { ...bucketRule('r', [], 1), algorithm_config: { tokens_per_minute: 60 } }
  expect(problemsOfRule(swapped)).toEqual([
    expect.stringMatching(/algorithm_config\.tokens_per_second: .*missing/),
    expect.stringMatching(/algorithm_config\.burst: .*missing/),
    expect.stringMatching(/algorithm_config: unknown field "tokens_per_minute"/),
  ])
  const other = llmRule('r', [], { tokens_per_second: 1, burst: 1 })
  expect(problemsOfRule(other)).toEqual([
    expect.stringContaining('at least one of tokens_per_minute and tokens_per_day'),
    expect.stringMatching(/algorithm_config: unknown field "tokens_per_second"/),
    expect.stringMatching(/algorithm_config: unknown field "burst"/),
  ])
})

test.each(['tokens_per_second', 'burst'])('[bucket-1] tokens_per_second and burst are numbers: %s is no text', (field) => {
  const rule = { ...bucketRule('r', [], 1), algorithm_config: { tokens_per_second: 1, burst: 1, [field]: '10' } }
  expect(problemsOfRule(rule)).toEqual([expect.stringMatching(new RegExp(`\\.algorithm_config\\.${field}: .*got "10"`))])
})

const LLM_FIELDS = ['tokens_per_minute', 'tokens_per_day', 'burst_tokens', 'max_completion_tokens']

test.each(LLM_FIELDS)('[llm-1] the budgets of token_bucket_llm are integers: %s is no fraction', (field) => {
  const rule = llmRule('r', [], { tokens_per_minute: 60, [field]: 1.5 })
  expect(problemsOfRule(rule)).toEqual([expect.stringMatching(new RegExp(`\\.algorithm_config\\.${field}: .*got 1\\.5`))])
})
