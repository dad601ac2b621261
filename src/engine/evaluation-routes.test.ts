import { expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import { BACKENDS } from '../../test/support/bundles/routed-bundles.ts'
import { CALLERS, GoodCallers } from '../../test/support/callers/good-callers.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import type { LlmRequest } from '../llm/llm-request.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import { Engine } from './engine.ts'
import type { Evaluation } from './evaluation.ts'

const TO_A = { backends: [{ name: 'a' }] }
const TO_B = { backends: [{ name: 'b' }, { name: 'c' }], stick_to: ['header:x-user', 'llm:model'] }

test('the route is known before anything is taken, by the model of the body and the verified caller', async () => {
  const open = setUp([
    { match: { 'llm:model': 'gpt-*', 'caller:team': 'blue' }, ...TO_A },
    { match: { 'llm:model': 'gpt-*' }, ...TO_B },
  ])
  const blue = open({ authorization: 'Bearer good:ada:blue' })
  expect(await blue.identify()).toBeUndefined()
  expect(blue.routeNeedsBody()).toBe(true)
  expect(chosen(blue, body('gpt-4o'))).toEqual([0, undefined])
  expect(chosen(blue, body('claude'))).toBeUndefined()
  const red = open({ authorization: 'Bearer good:bob:red', 'x-user': 'bob' })
  await red.identify()
  expect(chosen(red, body('gpt-4o'))).toEqual([1, ['bob', 'gpt-4o']])
  expect(chosen(red, 'repeated_descriptor')).toBe('repeated_descriptor')
  expect(chosen(red, undefined)).toBeUndefined()
  const nameless = open({})
  await nameless.identify()
  expect(chosen(nameless, body('gpt-4o'))).toEqual([1, undefined])
})

test('asking for the route changes nothing for the rules', () => {
  const open = setUp([{ match: { 'llm:model': 'gpt-*' }, ...TO_A }, TO_B], llmRule('tokens', [], { tokens_per_minute: 100 }))
  const [asked, plain] = [open({}), open({})]
  const steps = [asked, plain].map((evaluation) => {
    const need = evaluation.needsBody()
    if (evaluation === asked) expect([evaluation.routeNeedsBody(), chosen(evaluation, body('gpt-4o'))]).toEqual([true, [0, undefined]])
    return [need, evaluation.decide({ body: body('gpt-4o') })]
  })
  expect(steps[0]![0]).toBe('must')
  expect(steps[0]).toMatchObject([steps[1]![0], { action: 'allow' }])
  const [noBody, other] = [open({}), open({})]
  for (const evaluation of [noBody, other]) evaluation.needsBody()
  noBody.route()
  expect(noBody.decide()).toMatchObject({ action: (other.decide() as { action: string }).action })
})

test('a bundle without routes has none', () => {
  const engine = new Engine({ store: newEmbeddedStore(1 << 20), clock: new ManualClock() })
  engine.activate(planOf(bundle(1, policy('p', { rules: [bucketRule('r', [], 1)] }))))
  const evaluation = engine.open(new PlainRequestView({ method: 'GET', uri: '/' }))!
  expect([evaluation.routeNeedsBody(), evaluation.route()]).toEqual([false, undefined])
  expect(evaluation.decide()).toMatchObject({ action: 'allow' })
})

function setUp(routes: readonly object[], ...rules: readonly object[]): (headers: Record<string, string>) => Evaluation {
  const reader = new GoodCallers()
  const engine = new Engine({ store: newEmbeddedStore(1 << 20), clock: new ManualClock(), callerReaderOf: () => reader })
  engine.activate(planOf({ ...bundle(1, policy('p', { rules })), callers: CALLERS, backends: BACKENDS, routes }))
  return (headers) => engine.open(new PlainRequestView({ method: 'post', uri: '/v1/chat/completions', host: 'a.test', headers }))!
}

/** The number of the route, and the values that stick to a backend. */
function chosen(evaluation: Evaluation, facts: Parameters<Evaluation['route']>[0]): unknown {
  const found = evaluation.route(facts)
  return typeof found === 'object' ? [found.route.number, found.stickyValues] : found
}

function body(model: string): LlmRequest {
  return { promptTokens: 1, requestedTokens: 5, choices: 1, isStream: false, model }
}
