import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { formatProblem } from './problem.ts'
import { bundleSchema } from './schema.ts'
import { findUnknownFields } from './unknown-fields.ts'

const rule = bucketRule('r', [], 5)

describe('a misspelling that would widen or arm a policy refuses the bundle', () => {
  test.each([
    [{ mod: 'shadow' }, 'policies[0].spec: unknown field "mod": did you mean "mode"?'],
    [{ Mode: 'shadow' }, 'policies[0].spec: unknown field "Mode": did you mean "mode"?'],
    [{ selectors: {} }, 'policies[0].spec: unknown field "selectors": did you mean "selector"?'],
    [{ selector: { pathprefix: '/api' } }, 'policies[0].spec.selector: unknown field "pathprefix": did you mean "pathPrefix"?'],
    [{ selector: { path_prefix: '/api' } }, 'policies[0].spec.selector: unknown field "path_prefix": did you mean "pathPrefix"?'],
    [{ selector: { path: '/api' } }, 'policies[0].spec.selector: unknown field "path": did you mean "pathPrefix"?'],
    [{ selector: { host: 'a.com' } }, 'policies[0].spec.selector: unknown field "host": did you mean "hosts"?'],
    [{ selector: { owner: 'x' } }, 'policies[0].spec.selector: unknown field "owner"'],
    [{ selector: { method: 'GET' } }, 'policies[0].spec.selector: unknown field "method": did you mean "methods"?'],
  ])('%j', (spec, message) => {
    expect(unknownIn(bundle(1, policy('p', { rules: [], ...spec })))).toEqual({ errors: [message], warnings: [] })
  })
})

describe('a field one level too high would arm the policy for everything, and refuses the bundle', () => {
  test.each([
    [bundle(1, { ...policy('p', { rules: [] }), mode: 'shadow' } as never), 'policies[0]: unknown field "mode": it belongs in spec'],
    [bundle(1, { ...policy('p', { rules: [] }), selector: {} } as never), 'policies[0]: unknown field "selector": it belongs in spec'],
    [bundle(1, { ...policy('p', { rules: [] }), hosts: [] } as never), 'policies[0]: unknown field "hosts": it belongs in spec.selector'],
    [withSpec({ pathPrefix: '/api' }), 'policies[0].spec: unknown field "pathPrefix": it belongs in spec.selector'],
  ])('%j', (data, message) => {
    expect(unknownIn(data)).toEqual({ errors: [message], warnings: [] })
  })
})

test('a field with an endless name is cut in the message', () => {
  const [message] = unknownIn({ ...bundle(1), ['x'.repeat(1_000_000)]: 1 }).warnings
  expect(message!.length).toBeLessThan(100)
})

describe('any other unknown field is a warning', () => {
  test.each([
    [{ ...bundle(1), polices: [] }, 'unknown field "polices": did you mean "policies"?'],
    [{ ...bundle(1), comment: 'x' }, 'unknown field "comment"'],
    [{ ...bundle(1), __proto__x: 1 }, 'unknown field "__proto__x"'],
    [bundle(1, { ...policy('p', { rules: [] }), Id: 'x' } as never), 'policies[0]: unknown field "Id": did you mean "id"?'],
    [withSpec({ description: 'x' }), 'policies[0].spec: unknown field "description"'],
    [withSpec({ rules: [rule, { ...rule, note: 1 }] }), 'policies[0].spec.rules[1]: unknown field "note"'],
    [
      withSpec({ rules: [{ ...rule, algorithm_config: { tokens_per_second: 1, burst: 1, burts: 5 } }] }),
      'policies[0].spec.rules[0].algorithm_config: unknown field "burts": did you mean "burst"?',
    ],
    [
      withSpec({ rules: [llmRule('r', [], { tokens_per_day: 1, streaming: { enable: true } })] }),
      'policies[0].spec.rules[0].algorithm_config.streaming: unknown field "enable": did you mean "enabled"?',
    ],
  ])('%j', (data, message) => {
    expect(unknownIn(data)).toEqual({ errors: [], warnings: [message] })
  })

  test('also one named like what every object inherits', () => {
    const data = JSON.parse('{"bundle_version":1,"policies":[],"__proto__":{},"constructor":1,"toString":2}') as unknown
    expect(unknownIn(data).warnings).toHaveLength(3)
  })
})

test('a member of one algorithm is unknown to the other', () => {
  const data = withSpec({ rules: [llmRule('r', [], { tokens_per_day: 1, tokens_per_second: 1 })] })
  expect(unknownIn(data).warnings[0]).toMatch(/algorithm_config: unknown field "tokens_per_second"/)
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
  const full = { $schema: 'x', ...bundle(1, policy('p', { mode: 'shadow', selector, rules: [rule, llmRule('l', ['ip:tor'], config)] })) }
  for (const data of [full, null, undefined, 5, 'x', [], [{}], { policies: {} }, { policies: [null, 5, []] }]) {
    expect(unknownIn(data)).toEqual({ errors: [], warnings: [] })
  }
})

function withSpec(spec: object): object {
  return bundle(1, policy('p', { rules: [], ...spec }))
}

function unknownIn(data: unknown): { errors: string[]; warnings: string[] } {
  const { errors, warnings } = findUnknownFields(bundleSchema, data, [])
  return { errors: errors.map(formatProblem), warnings: warnings.map(formatProblem) }
}
