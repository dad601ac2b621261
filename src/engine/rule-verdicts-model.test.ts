import { describe, expect, test } from 'vitest'
import { bucketRule, budgetRule, bundle, llmRule, matching, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AMBIGUOUS } from '../costs/cost.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import type { PlanRule } from '../policy/plan.ts'
import { type PlainRequest, PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import { Engine } from './engine.ts'
import type { Explanation } from './explain/explanation.ts'

const TOKENS = { tokens_per_minute: 6000, max_completion_tokens: 200 }
const PRICES = { main: { '*': { input: 1, output: 1 } } }
const REFUSED = { action: 'refuse', reason: 'repeated_descriptor' }

describe('before the body is read, a rule that is keyed by llm:model', () => {
  test('asks for the body where it lacks nothing else', () => {
    const rules = [bucketRule('r', ['header:x-key', 'llm:model'], 5)]
    const enforcing = newEngine(policy('p', { rules }))
    expect(enforcing.open(viewOf({ 'x-key': 'a' }))!.needsBody()).toBe('must')
    expect(enforcing.open(viewOf({}))!.needsBody()).toBe('no')
    expect(enforcing.open(viewOf({ 'x-key': ['a', 'b'] }))!.needsBody()).toBe('no')
    expect(
      newEngine(policy('s', { mode: 'shadow', rules }))
        .open(viewOf({ 'x-key': 'a' }))!
        .needsBody(),
    ).toBe('may')
    const both = newEngine(policy('s', { mode: 'shadow', rules }), policy('p', { rules }))
    expect(both.open(viewOf({ 'x-key': 'a' }))!.needsBody()).toBe('must')
  })

  test('is undecided: it rejects nobody, and its model is not missing', () => {
    const engine = newEngine(policy('p', { rules: [bucketRule('model', ['llm:model', 'header:x-team'], 1), bucketRule('all', [], 2)] }))
    const view = viewOf({ 'x-team': 't' })
    engine.decide(view, { body: bodyOf('m') })
    const evaluation = engine.open(view)!
    expect(evaluation.needsBody()).toBe('must')
    expect(evaluation.precheck()).toBeUndefined()
    expect(evaluation.decide({ body: bodyOf('m') })).toMatchObject({ action: 'reject', rule: { name: 'model' }, missingKeys: [] })
    engine.decide(view, { body: bodyOf('n') })
    // Now the other rule rejects: what is missing in the head is noted, the model is not.
    const next = engine.open(viewOf({}))!
    next.needsBody()
    expect(next.precheck()).toMatchObject({ action: 'reject', rule: { name: 'all' }, missingKeys: ['header:x-team'] })
  })

  test('is not reported as missing its model where it does not apply anyway, and no body was read for it', () => {
    const engine = newEngine(policy('p', { rules: [bucketRule('model', ['header:x-key', 'llm:model'], 1)] }))
    const evaluation = engine.open(viewOf({}))!
    expect(evaluation.needsBody()).toBe('no')
    expect(evaluation.decide()).toMatchObject({ action: 'allow', limit: undefined, missingKeys: ['header:x-key'] })
  })

  test('asks for no body where its cost is ambiguous already: the request is refused', () => {
    const engine = newEngine(policy('p', { rules: [bucketRule('model', ['llm:model'], 5)] }))
    const rules = engine.plan!.policies[0]!.rules as PlanRule[]
    rules[0] = { ...rules[0]!, cost: { needsBody: false, isLeasable: false, of: () => AMBIGUOUS, settling: undefined } }
    const evaluation = engine.open(viewOf({}))!
    expect(evaluation.needsBody()).toBe('no')
    expect(evaluation.precheck()).toEqual(REFUSED)
  })

  test('is not applied where the body could not be read, as in shadow mode', () => {
    const rules = [bucketRule('model', ['llm:model'], 1), bucketRule('all', [], 9)]
    const evaluation = newEngine(policy('s', { mode: 'shadow', rules })).open(viewOf({}))!
    expect(evaluation.needsBody()).toBe('may')
    expect(evaluation.precheck()).toBeUndefined()
    expect(evaluation.decide()).toMatchObject({ action: 'allow', wouldRejects: [], missingKeys: [] })
  })
})

test('a shadow budget asks for the body whatever the field says that counts where there is none', () => {
  const cost = { header: 'x-cost', default: 1 }
  const rules = [budgetRule('dollars', [], { budget: 10, prices: 'main', cost })]
  const engine = newEngine(policy('s', { mode: 'shadow', rules }))
  const evaluation = engine.open(viewOf({ 'x-cost': ['1', '2'] }))!
  expect(evaluation.needsBody()).toBe('may')
  expect(evaluation.decide({ body: bodyOf('m') })).toMatchObject({ action: 'allow', reservation: { charges: [{ amount: 10_000 }] } })
})

describe('once the body is read, llm:model', () => {
  test('is the body’s model: each has a bucket of its own', () => {
    const engine = newEngine(policy('p', { rules: [bucketRule('model', ['llm:model'], 1)] }))
    const decide = (model: string) => {
      const evaluation = engine.open(viewOf({}), { withDescriptors: true })!
      evaluation.needsBody()
      evaluation.precheck()
      return evaluation.decide({ body: bodyOf(model) })
    }
    expect(decide('a')).toMatchObject({ action: 'allow', descriptors: [{ key: 'llm:model', value: 'a' }] })
    expect(decide('a')).toMatchObject({ action: 'reject' })
    expect(decide('b')).toMatchObject({ action: 'allow' })
    expect(engine.inspect({ policy: 'p', rule: 'model', values: { 'llm:model': 'a' } })).toMatchObject({ counters: [{ level: 0 }] })
  })

  test.each([undefined, ''])('is missing where the body names none: %j', (model) => {
    const engine = newEngine(policy('p', { rules: [bucketRule('model', ['llm:model'], 1)] }))
    const evaluation = engine.open(viewOf({}))!
    evaluation.needsBody()
    expect(evaluation.decide({ body: bodyOf(model) })).toMatchObject({ action: 'allow', limit: undefined, missingKeys: ['llm:model'] })
  })

  test('is missing in a door that reads no body', () => {
    const engine = newEngine(policy('p', { rules: [bucketRule('model', ['llm:model'], 1)] }))
    for (let i = 0; i < 2; i++) expect(engine.decide(viewOf({}))).toMatchObject({ action: 'allow', missingKeys: ['llm:model'] })
  })

  test('of one request is never seen by the next', () => {
    const engine = newEngine(policy('p', { rules: [bucketRule('model', ['llm:model'], 1)] }))
    expect(engine.decide(viewOf({}), { body: 'repeated_descriptor' })).toEqual(REFUSED)
    expect(engine.decide(viewOf({}), { body: bodyOf('m') })).toMatchObject({ action: 'allow', limit: { remaining: 0 } })
    const evaluation = engine.open(viewOf({}))!
    evaluation.precheck()
    evaluation.decide({ body: bodyOf('n') })
    expect(engine.decide(viewOf({}))).toMatchObject({ action: 'allow', missingKeys: ['llm:model'] })
  })

  test('is missing where the request before had a body that nobody read', () => {
    const engine = newEngine(policy('p', { rules: [bucketRule('model', ['llm:model'], 1), bucketRule('r', ['header:x-key'], 1)] }))
    engine.decide(viewOf({ 'x-key': 'a' }))
    expect(engine.open(viewOf({ 'x-key': 'a' }))!.precheck()).toMatchObject({ action: 'reject', missingKeys: [] })
    expect(engine.decide(viewOf({ 'x-key': 'b' }))).toMatchObject({ action: 'allow', missingKeys: ['llm:model'] })
  })
})

describe('a body that says twice what a rule needs', () => {
  const rules = [bucketRule('all', [], 1), bucketRule('model', ['llm:model'], 1)]

  test('refuses where the rule enforces, whether it is keyed by the model or costs what the body says', () => {
    for (const rule of [bucketRule('model', ['llm:model'], 5), llmRule('budget', [], TOKENS)]) {
      const engine = newEngine(policy('p', { rules: [bucketRule('all', [], 1), rule] }))
      for (let i = 0; i < 3; i++) expect(engine.decide(viewOf({}), { body: 'repeated_descriptor' })).toEqual(REFUSED)
      expect(engine.decide(viewOf({}), { body: bodyOf('m') })).toMatchObject({ action: 'allow' })
    }
  })

  test('leaves out a shadow policy that needs the body, with all its rules', () => {
    const engine = newEngine(policy('s', { mode: 'shadow', rules }), policy('p', { rules: [bucketRule('r', [], 9)] }))
    for (const remaining of [8, 7]) {
      const evaluation = engine.open(viewOf({}))!
      expect(evaluation.needsBody()).toBe('may')
      const decision = evaluation.decide({ body: 'repeated_descriptor' })
      expect(decision).toMatchObject({ action: 'allow', limit: { remaining }, wouldRejects: [], missingKeys: [], reservation: undefined })
    }
    expect(engine.decide(viewOf({}), { body: bodyOf('m') })).toMatchObject({ action: 'allow', wouldRejects: [] })
    expect(engine.decide(viewOf({}), { body: bodyOf('m') })).toMatchObject({ wouldRejects: [{ rule: { name: 'all' } }] })
  })

  test('concerns no policy that does without the body', () => {
    const engine = newEngine(policy('p', { rules: [bucketRule('r', [], 9)] }))
    expect(engine.decide(viewOf({}), { body: 'repeated_descriptor' })).toMatchObject({ action: 'allow', limit: { remaining: 8 } })
  })

  test.each<[string, object]>([
    ['lacks another key', bucketRule('model', ['header:x-key', 'llm:model'], 5)],
    ['costs what the body says, and lacks its key', llmRule('budget', ['header:x-key'], TOKENS)],
    ['has another match', matching({ 'llm:model': 'a', 'header:x-plan': 'pro' }, bucketRule('pro', [], 5))],
    ['matches by the model, and lacks its key', matching({ 'llm:model': 'a' }, bucketRule('pro', ['header:x-key'], 5))],
  ])('refuses nothing where the rule that enforces %s: a shadow policy alone had the body read', (_, rule) => {
    const shadow = policy('s', { mode: 'shadow', rules: [llmRule('budget', [], TOKENS)] })
    const engine = newEngine(policy('p', { rules: [rule] }), shadow)
    const evaluation = engine.open(viewOf({}))!
    expect(evaluation.needsBody()).toBe('may')
    expect(evaluation.precheck()).toBeUndefined()
    expect(engine.explain(viewOf({}), { body: 'repeated_descriptor' })).toMatchObject({ decision: { action: 'allow' } })
    expect(evaluation.decide({ body: 'repeated_descriptor' })).toMatchObject({ action: 'allow', wouldRejects: [], reservation: undefined })
  })

  test('is named in an explanation', () => {
    const explain = (mode: string, rule: object) =>
      newEngine(policy('p', { mode, rules: [bucketRule('all', [], 1), rule] })).explain(viewOf({}), {
        body: 'repeated_descriptor',
      }) as Explanation
    for (const rule of [bucketRule('model', ['llm:model'], 5), llmRule('budget', [], TOKENS)]) {
      const enforced = explain('enforce', rule)
      expect(enforced.decision).toEqual(REFUSED)
      expect(enforced.policies[0]!.rules.map(({ why }) => why)).toEqual([undefined, 'repeated_descriptor'])
      const tried = explain('shadow', rule)
      expect(tried.decision).toMatchObject({ action: 'allow' })
      expect(tried.policies[0]!.rules.map(({ why }) => why)).toEqual(['repeated_descriptor', 'repeated_descriptor'])
    }
  })
})

function newEngine(...policies: readonly PolicyText[]): Engine {
  const engine = new Engine({ store: newEmbeddedStore(64 * 1024), clock: new ManualClock() })
  const parsed = parseBundle(JSON.stringify({ ...bundle(1, ...policies), prices: PRICES }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  engine.activate(compileBundle(parsed.bundle))
  return engine
}

function viewOf(headers: NonNullable<PlainRequest['headers']>): PlainRequestView {
  return new PlainRequestView({ method: 'POST', uri: '/v1/chat', headers })
}

function bodyOf(model: string | undefined) {
  return { promptTokens: 0, requestedTokens: 10, choices: 1, isStream: false, model }
}
