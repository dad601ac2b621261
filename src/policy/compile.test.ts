import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { requestFacts } from '../../test/support/costs/request-facts.ts'
import { GIVEN } from '../costs/request-costs.ts'
import { BUCKET, WINDOW } from '../limiter/limit.ts'
import { compileBundle } from './compile.ts'
import { parseBundle } from './parse.ts'
import type { Plan, PlanRule } from './plan.ts'

describe('a plan', () => {
  test('has the version as an integer, however it was written', () => {
    expect(planOf(bundle('00012')).version).toBe(12n)
    expect(planOf(bundle('9'.repeat(30))).version).toBe(BigInt('9'.repeat(30)))
    expect(planOf(bundle(12)).version).toBe(12n)
  })

  test('keeps policies and rules in bundle order, numbered across policies', () => {
    const rules = [bucketRule('x', [], 1), bucketRule('y', [], 1)]
    const plan = planFor(policy('a', { rules }), policy('b', { mode: 'shadow', rules }))
    expect(plan.policies.map(({ index, id, mode, isShadow }) => [index, id, mode, isShadow])).toEqual([
      [0, 'a', 'enforce', false],
      [1, 'b', 'shadow', true],
    ])
    expect(rulesOf(plan).map(({ name, policy: { id } }) => [id, name])).toEqual([
      ['a', 'x'],
      ['a', 'y'],
      ['b', 'x'],
      ['b', 'y'],
    ])
  })

  test('labels a policy with its path as it was written, and with / where it has none', () => {
    const selectors = [{ pathPrefix: '//Api/' }, { pathExact: '/x/../y' }, { methods: ['GET'] }, undefined]
    const policies = selectors.map((selector, i) => policy(`p${i}`, { rules: [], ...(selector && { selector }) }))
    expect(planFor(...policies).policies.map(({ route }) => route)).toEqual(['//Api/', '/x/../y', '/', '/'])
  })

  test('lists each descriptor key once, header names in lower case', () => {
    const rules = [bucketRule('x', ['header:X-Key', 'ip:address'], 1), bucketRule('y', ['jwt:sub', 'header:x-key'], 1)]
    const plan = planFor(policy('a', { rules }))
    expect(plan.keys.map(({ text }) => text)).toEqual(['header:x-key', 'ip:address', 'jwt:sub'])
    expect(rulesOf(plan).map(({ keyIndexes }) => keyIndexes)).toEqual([
      [0, 1],
      [2, 0],
    ])
  })

  test('cannot be changed', () => {
    const plan = planFor(policy('a', { rules: [bucketRule('x', [], 1)] }))
    const rule = rulesOf(plan)[0]!
    for (const part of [plan, plan.policies[0], rule, rule.counters[0], rule.counters[0]!.limit]) expect(part).toSatisfy(Object.isFrozen)
  })
})

describe('a token_bucket rule', () => {
  const [rule] = rulesOf(planFor(policy('p', { rules: [bucketRule('r "\\q', ['ip:address', 'header:X-A'], 2.5, 0.5)] })))

  test('is one bucket that each request takes what is given from, and that may be leased', () => {
    expect(rule!.counters).toMatchObject([
      { limit: { kind: BUCKET, tokensPerMs: 0.0005, burst: 2.5 }, size: 2.5, reason: 'token_bucket_exceeded', limitText: '2' },
    ])
    expect(rule!.cost).toBe(GIVEN)
    expect(rule!.counters.map(({ isLeasable }) => isLeasable)).toEqual([true])
    expect(rule!.llm).toBeUndefined()
  })

  test('has the id of its policy as a structured-field string', () => {
    const [other] = rulesOf(planFor(policy('p "\\q', { rules: [bucketRule('r', [], 1)] })))
    expect(other!.policy.quotedId).toBe('"p \\"\\\\q"')
  })

  test('is told from others by policy, name, mode, algorithm and keys', () => {
    expect(rule!.counters[0]!.identity).toEqual(['p', 'r "\\q', 'enforce', 'token_bucket', 'ip:address', 'header:x-a', 'bucket'])
  })
})

describe('a token_bucket_llm rule', () => {
  test('is a minute and a day, the minute first', () => {
    const rule = llm({ tokens_per_day: 90_000, tokens_per_minute: 6000 })
    expect(rule.counters).toMatchObject([
      { limit: { kind: BUCKET, tokensPerMs: 0.1, burst: 6000 }, reason: 'tpm_exceeded', limitText: '6000' },
      { limit: { kind: WINDOW, tokens: 90_000, calendar: { period: '1d', zone: 'UTC' } }, reason: 'tpd_exceeded', limitText: '90000' },
    ])
    expect(rule.counters.map(({ identity }) => identity.at(-1))).toEqual(['minute', 'day'])
  })

  test('has a minute bucket of burst_tokens where they are given', () => {
    expect(llm({ tokens_per_minute: 6000, burst_tokens: 500 }).counters).toMatchObject([{ size: 500, limitText: '500' }])
  })

  test('may have one of the two alone', () => {
    expect(llm({ tokens_per_minute: 6000 }).counters.map(({ reason }) => reason)).toEqual(['tpm_exceeded'])
    expect(llm({ tokens_per_day: 6000 }).counters.map(({ reason }) => reason)).toEqual(['tpd_exceeded'])
  })

  test('reserves max_completion_tokens, 1000 without them, and nothing where no text is generated', () => {
    const bounded = llm({ tokens_per_day: 6000, max_completion_tokens: 70 })
    const unbounded = llm({ tokens_per_day: 6000 })
    const [chat, embeddings] = ['/v1/chat/completions', '/v1/embeddings'].map((path) => requestFacts({ path }))
    expect([bounded.cost.of(chat!), bounded.cost.of(embeddings!)]).toEqual([70, 0])
    expect([unbounded.cost.of(chat!), unbounded.cost.of(embeddings!)]).toEqual([1000, 0])
    expect(bounded.counters.map(({ isLeasable }) => isLeasable)).toEqual([false])
  })

  test('watches streams as the specification says where it says nothing of them, and in what it leaves out', () => {
    const defaults = {
      enabled: true,
      enforceMidStream: true,
      bufferTokens: 100,
      onLimitExceeded: 'graceful_close',
      includePartialUsage: true,
    }
    expect(llm({ tokens_per_day: 6000 }).llm).toEqual({ maxCompletionTokens: undefined, withoutUsage: 'estimate', streaming: defaults })
    expect(llm({ tokens_per_day: 6000, streaming: {} }).llm!.streaming).toEqual(defaults)
    expect(llm({ tokens_per_day: 6000, streaming: { buffer_tokens: 7 } }).llm!.streaming).toEqual({ ...defaults, bufferTokens: 7 })
  })

  test('has the streaming settings that it was given', () => {
    const streaming = {
      enabled: false,
      enforce_mid_stream: false,
      buffer_tokens: 20,
      on_limit_exceeded: 'error_chunk',
      include_partial_usage: false,
    }
    const rule = llm({ tokens_per_day: 6000, max_completion_tokens: 70, without_usage: 'keep', streaming })
    expect(rule.llm).toEqual({
      maxCompletionTokens: 70,
      withoutUsage: 'keep',
      streaming: { enabled: false, enforceMidStream: false, bufferTokens: 20, onLimitExceeded: 'error_chunk', includePartialUsage: false },
    })
    for (const flag of ['enabled', 'enforce_mid_stream', 'include_partial_usage'] as const) {
      const { enabled, enforceMidStream, includePartialUsage } = llm({ tokens_per_day: 6000, streaming: { ...streaming, [flag]: true } })
        .llm!.streaming
      expect([enabled, enforceMidStream, includePartialUsage]).toEqual([
        flag === 'enabled',
        flag === 'enforce_mid_stream',
        flag === 'include_partial_usage',
      ])
    }
    expect([rule.llm, rule.llm!.streaming].every(Object.isFrozen)).toBe(true)
  })

  function llm(config: object): PlanRule {
    return rulesOf(planFor(policy('p', { rules: [llmRule('r', [], config)] })))[0]!
  }
})

describe('the identity of a counter', () => {
  test.each([
    ['policy id', policy('q', { rules: [bucketRule('r', ['ip:tor'], 1)] })],
    ['rule name', policy('p', { rules: [bucketRule('s', ['ip:tor'], 1)] })],
    ['mode', policy('p', { mode: 'shadow', rules: [bucketRule('r', ['ip:tor'], 1)] })],
    ['limit keys', policy('p', { rules: [bucketRule('r', ['ip:type'], 1)] })],
    ['algorithm', policy('p', { rules: [llmRule('r', ['ip:tor'], { tokens_per_minute: 60_000, burst_tokens: 1 })] })],
  ])('depends on its %s', (_, other) => {
    expect(identityOf(other)).not.toEqual(identityOf(policy('p', { rules: [bucketRule('r', ['ip:tor'], 1)] })))
  })

  test('depends neither on rate and burst, nor on its place in the bundle, nor on the selector', () => {
    const rule = bucketRule('r', ['ip:tor'], 1)
    const moved = planFor(
      policy('o', { rules: [rule] }),
      policy('p', { selector: { pathPrefix: '/x' }, rules: [bucketRule('r', ['ip:tor'], 9, 9)] }),
    )
    expect(rulesOf(moved)[1]!.counters[0]!.identity).toEqual(identityOf(policy('p', { rules: [rule] })))
  })

  function identityOf(text: PolicyText): readonly string[] {
    return planFor(text).counters[0]!.identity
  }
})

test('a plan and its policies know whether a rule of theirs needs the body', () => {
  const plain = policy('plain', { rules: [bucketRule('r', [], 1)] })
  const mixed = policy('mixed', { rules: [bucketRule('r', [], 1), llmRule('l', [], { tokens_per_minute: 5000 })] })
  expect(planFor(plain).needsBody).toBe(false)
  expect(planFor(plain, mixed).needsBody).toBe(true)
  expect(planFor(plain, mixed).policies.map(({ needsBody }) => needsBody)).toEqual([false, true])
  expect([planFor(plain).hasSettledCosts, planFor(plain, mixed).hasSettledCosts]).toEqual([false, true])
})

function planFor(...policies: PolicyText[]): Plan {
  return planOf(bundle(1, ...policies))
}

function planOf(data: object): Plan {
  const parsed = parseBundle(JSON.stringify(data))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle)
}

function rulesOf(plan: Plan): PlanRule[] {
  return plan.policies.flatMap(({ rules }) => rules)
}
