import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy, windowRule } from '../../../test/support/bundles/bundles.ts'
import { sized } from '../../../test/support/run/property-runs.ts'
import { formatProblem } from '../../text/problem.ts'
import { bundleSchema } from '../schema/bundle.ts'
import { findUnknownFields } from './unknown-fields.ts'

const rule = bucketRule('r', [], 5)

describe('an unknown field refuses the bundle, wherever it stands', () => {
  test.each([
    [withSpec({ mod: 'shadow' }), 'policies[0].spec: unknown field "mod": did you mean "mode"?'],
    [withSpec({ Mode: 'shadow' }), 'policies[0].spec: unknown field "Mode": did you mean "mode"?'],
    [withSpec({ selectors: {} }), 'policies[0].spec: unknown field "selectors": did you mean "selector"?'],
    [withSpec({ loop_detection: {} }), 'policies[0].spec: unknown field "loop_detection"'],
    [withSelector({ pathprefix: '/api' }), 'policies[0].spec.selector: unknown field "pathprefix": did you mean "pathPrefix"?'],
    [withSelector({ path_prefix: '/api' }), 'policies[0].spec.selector: unknown field "path_prefix": did you mean "pathPrefix"?'],
    [withSelector({ path: '/api' }), 'policies[0].spec.selector: unknown field "path": did you mean "pathPrefix"?'],
    [withSelector({ host: 'a.com' }), 'policies[0].spec.selector: unknown field "host": did you mean "hosts"?'],
    [withSelector({ owner: 'x' }), 'policies[0].spec.selector: unknown field "owner"'],
    [withSelector({ method: 'GET' }), 'policies[0].spec.selector: unknown field "method": did you mean "methods"?'],
    [{ ...bundle(1), polices: [] }, 'unknown field "polices": did you mean "policies"?'],
    [{ ...bundle(1), kill_switches: [] }, 'unknown field "kill_switches" (put your own notes into "metadata")'],
    [{ ...bundle(1), __proto__x: 1 }, 'unknown field "__proto__x" (put your own notes into "metadata")'],
    [withPolicy({ Id: 'x' }), 'policies[0]: unknown field "Id": did you mean "id"?'],
    [withPolicy({ owner: 'x' }), 'policies[0]: unknown field "owner" (put your own notes into "metadata")'],
    [withPolicy({ enabled: false }), 'policies[0]: unknown field "enabled" (put your own notes into "metadata")'],
    [withRule({ matches: {} }), 'policies[0].spec.rules[1]: unknown field "matches" (put your own notes into "metadata")'],
    [withRule({ Name: 'x' }), 'policies[0].spec.rules[1]: unknown field "Name": did you mean "name"?'],
    [
      withRule({ algorithm_config: { tokens_per_second: 1, burst: 1, burts: 5 } }),
      'policies[0].spec.rules[1].algorithm_config: unknown field "burts": did you mean "burst"?',
    ],
    [
      withSpec({ rules: [llmRule('r', [], { tokens_per_day: 1, streaming: { enable: true } })] }),
      'policies[0].spec.rules[0].algorithm_config.streaming: unknown field "enable": did you mean "enabled"?',
    ],
  ])('%j', (data, message) => {
    expect(unknownIn(data)).toEqual({ errors: [message], warnings: [] })
  })

  test('also one named like what every object inherits', () => {
    const data = JSON.parse('{"bundle_version":1,"policies":[],"__proto__":{},"constructor":1,"toString":2}') as unknown
    expect(unknownIn(data).errors).toHaveLength(3)
  })
})

describe('a field in the wrong place is told where it belongs', () => {
  test.each([
    [withPolicy({ mode: 'shadow' }), 'policies[0]: unknown field "mode": it belongs in spec'],
    [withPolicy({ mod: 'shadow' }), 'policies[0]: unknown field "mod": did you mean "mode" in spec?'],
    [withPolicy({ selector: {} }), 'policies[0]: unknown field "selector": it belongs in spec'],
    [withPolicy({ hosts: [] }), 'policies[0]: unknown field "hosts": it belongs in spec.selector'],
    [withSpec({ pathPrefix: '/api' }), 'policies[0].spec: unknown field "pathPrefix": it belongs in spec.selector'],
    [withSpec({ limit_keys: [] }), 'policies[0].spec: unknown field "limit_keys": it belongs in a rule'],
    [withRule({ methods: [] }), 'policies[0].spec.rules[1]: unknown field "methods": it belongs in spec.selector'],
    [withRule({ limit: 5 }), 'policies[0].spec.rules[1]: unknown field "limit": it belongs in algorithm_config of fixed_window'],
    [withRule({ prices: 'main' }), 'policies[0].spec.rules[1]: unknown field "prices": it belongs in algorithm_config of cost_budget'],
    [withPolicy({ prices: {} }), 'policies[0]: unknown field "prices": it belongs at the top of the bundle'],
    [withRule({ burst: 5 }), 'policies[0].spec.rules[1]: unknown field "burst": it belongs in algorithm_config of token_bucket'],
    [
      withSpec({ rules: [llmRule('r', [], { tokens_per_day: 1, tokens_per_second: 1 })] }),
      'policies[0].spec.rules[0].algorithm_config: unknown field "tokens_per_second": only token_bucket has it',
    ],
    [
      withSpec({ rules: [windowRule('r', [], { limit: 1, period: '1m', warn_at_percent: [80] })] }),
      'policies[0].spec.rules[0].algorithm_config: unknown field "warn_at_percent": only token_bucket_llm and cost_budget have it',
    ],
    [
      withRule({ warn_at_percent: [80] }),
      'policies[0].spec.rules[1]: unknown field "warn_at_percent": it belongs in algorithm_config of token_bucket_llm or cost_budget',
    ],
  ])('%j', (data, message) => {
    expect(unknownIn(data)).toEqual({ errors: [message], warnings: [] })
  })
})

describe('what other programs have is told how to say it here', () => {
  const [rulePath, selectorPath] = ['policies[0].spec.rules[1]', 'policies[0].spec.selector']
  test.each([
    [
      withRule({ when: 'hour > 8' }),
      `${rulePath}: unknown field "when": write conditions on requests in match; there are none on the time`,
    ],
    [
      withSelector({ pathRegex: '^/v1' }),
      `${selectorPath}: unknown field "pathRegex": paths have no patterns: write pathPrefix, and "path:<n>"`,
    ],
    [
      withSelector({ headers: {} }),
      `${selectorPath}: unknown field "headers": it reads paths, methods and hosts: write other conditions, such as`,
    ],
    [
      { ...bundle(1), routes: [{ selector: { models: [] } }] },
      'routes[0].selector: unknown field "models": it reads paths, methods and hosts: write other conditions, such as',
    ],
    [
      withSpec({ rules: [llmRule('r', [], { tokens_per_day: 1, tokens_per_month: 1 })] }),
      'policies[0].spec.rules[0].algorithm_config: unknown field "tokens_per_month": there are token budgets by minute and by day; for another',
    ],
  ])('%j', (data, message) => {
    expect(unknownIn(data)).toEqual({ errors: [expect.stringContaining(message)], warnings: [] })
  })
})

describe('a field that other readers of bundles know is a warning', () => {
  const notes = { issued_at: 1, expires_at: 2, description: 'd', labels: {}, 'x-owner': 'team', 'X-Team': [] }

  test.each([
    ['', { ...bundle(1), ...notes, name: 'n' }],
    ['policies[0]', withPolicy({ ...notes, name: 'n' })],
    ['policies[0].spec', withSpec({ ...notes, name: 'n' })],
    ['policies[0].spec.rules[1]', withRule(notes)],
    ['policies[0].spec.rules[1].algorithm_config', withRule({ algorithm_config: { tokens_per_second: 1, burst: 1, ...notes } })],
  ])('in %j', (path, data) => {
    const { errors, warnings } = unknownIn(data)
    expect(errors).toEqual([])
    expect(warnings.length).toBeGreaterThanOrEqual(Object.keys(notes).length)
    for (const name of Object.keys(notes)) {
      expect(warnings).toContain(`${path === '' ? '' : `${path}: `}unknown field "${name}": it is ignored`)
    }
  })

  test('but not in a selector, where it was meant to narrow', () => {
    const { errors, warnings } = unknownIn(withSelector({ ...notes, name: 'n' }))
    expect([errors.length, warnings]).toEqual([7, []])
  })
})

test('metadata may hold anything', () => {
  const metadata = { owner: 'team', mode: 'shadow', deep: { selector: { pathprefix: 1 } } }
  const data = { ...withSpec({ rules: [{ ...rule, metadata }] }), metadata }
  expect(unknownIn(data)).toEqual({ errors: [], warnings: [] })
  expect(unknownIn(withPolicy({ metadata }))).toEqual({ errors: [], warnings: [] })
})

test('a field with an endless name is cut in the message', () => {
  const [message] = unknownIn({ ...bundle(1), ['y'.repeat(1_000_000)]: 1 }).errors
  expect(message!.length).toBeLessThan(150)
})

test('of very many unknown fields the first ones are named', () => {
  const many = (prefix: string): object => Object.fromEntries(Array.from({ length: sized(1000, 100_000) }, (_, i) => [`${prefix}${i}`, 1]))
  const { errors, warnings } = findUnknownFields(bundleSchema, { ...bundle(1), ...many('y'), ...many('x-') }, [], 20)
  expect([errors.length, warnings.length]).toEqual([20, 20])
})

test('a bundle without unknown fields has nothing to say, and neither has what is no bundle at all', () => {
  const selector = { pathPrefix: '/', methods: ['GET'], hosts: ['a.com'] }
  const streaming = {
    enabled: true,
    enforce_mid_stream: true,
    buffer_tokens: 1,
    on_limit_exceeded: 'error_chunk',
    include_partial_usage: false,
  }
  const config = { tokens_per_minute: 1, tokens_per_day: 1, burst_tokens: 1, max_completion_tokens: 1, streaming }
  const full = {
    $schema: 'x',
    metadata: {},
    ...bundle(1, policy('p', { mode: 'shadow', selector, rules: [rule, llmRule('l', ['ip:tor'], config)] })),
  }
  for (const data of [full, null, undefined, 5, 'x', [], [{}], { policies: {} }, { policies: [null, 5, []] }]) {
    expect(unknownIn(data)).toEqual({ errors: [], warnings: [] })
  }
})

function withSpec(spec: object): object {
  return bundle(1, policy('p', { rules: [], ...spec }))
}

function withSelector(selector: object): object {
  return withSpec({ selector })
}

function withPolicy(fields: object): object {
  return bundle(1, { ...policy('p', { rules: [] }), ...fields })
}

/** In the second of two rules. */
function withRule(fields: object): object {
  return withSpec({ rules: [rule, { ...rule, ...fields }] })
}

function unknownIn(data: unknown): { errors: string[]; warnings: string[] } {
  const { errors, warnings } = findUnknownFields(bundleSchema, data, [], 1000)
  return { errors: errors.map(formatProblem), warnings: warnings.map(formatProblem) }
}
