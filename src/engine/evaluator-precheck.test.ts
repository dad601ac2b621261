import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import { AsyncStore } from '../../test/support/store/async-store.ts'
import { compileBundle } from '../policy/compile.ts'
import { parseBundle } from '../policy/parse.ts'
import { type PlainRequest, PlainRequestView } from '../request/view.ts'
import type { CounterStore } from '../store/counter-store.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import { Engine } from './engine.ts'

const TOKENS = { tokens_per_minute: 600, tokens_per_day: 900, max_completion_tokens: 200 }

describe('a body is needed', () => {
  const chat = policy('chat', {
    selector: { pathPrefix: '/v1', methods: ['POST'] },
    rules: [bucketRule('requests', [], 5), llmRule('budget', ['header:x-key'], TOKENS)],
  })

  test('where a rule that counts tokens covers the request', () => {
    const { needsBody } = engineOn([chat])
    expect(needsBody({ uri: '/v1/chat', headers: { 'x-key': 'a' } })).toBe('must')
    expect(needsBody({ uri: '/elsewhere', headers: { 'x-key': 'a' } })).toBe('no')
    expect(needsBody({ uri: '/v1/chat', method: 'GET', headers: { 'x-key': 'a' } })).toBe('no')
  })

  test('for embeddings too: their prompt counts', () => {
    expect(engineOn([chat]).needsBody({ uri: '/v1/embeddings', headers: { 'x-key': 'a' } })).toBe('must')
  })

  test('not for a rule that lacks a descriptor, unless another has all of its own', () => {
    expect(engineOn([chat]).needsBody({ uri: '/v1/chat' })).toBe('no')
    const everyone = policy('everyone', { rules: [llmRule('budget', [], TOKENS)] })
    expect(engineOn([chat, everyone]).needsBody({ uri: '/v1/chat' })).toBe('must')
    const pair = policy('pair', { rules: [llmRule('budget', ['header:x-key', 'header:x-team'], TOKENS)] })
    expect(engineOn([pair]).needsBody({ uri: '/v1/chat', headers: { 'x-key': 'a' } })).toBe('no')
  })

  test('by a shadow policy too, which is to count what enforcement would', () => {
    const shadow = policy('s', { mode: 'shadow', rules: [llmRule('budget', [], TOKENS)] })
    expect(engineOn([shadow]).needsBody({ uri: '/' })).toBe('may')
  })

  test('not where no rule counts tokens, no policy matches, no host is named or no bundle is loaded', () => {
    expect(engineOn([policy('p', { rules: [bucketRule('r', [], 5)] })]).needsBody({ uri: '/' })).toBe('no')
    expect(engineOn([]).needsBody({ uri: '/' })).toBe('no')
    const hosts = policy('h', { selector: { hosts: ['a.test'] }, rules: [llmRule('budget', [], TOKENS)] })
    expect(engineOn([hosts]).needsBody({ uri: '/' })).toBe('no')
    expect(engineOn([hosts]).needsBody({ uri: '/', host: 'a.test' })).toBe('must')
  })

  test('is asked of no store, and leaves nothing behind for the next decision', () => {
    const store = new AsyncStore()
    const { needsBody } = engineOn([chat], store)
    expect(needsBody({ uri: '/v1/chat', headers: { 'x-key': 'a' } })).toBe('must')
    expect(store.waiting).toBe(0)

    const { engine, needsBody: again } = engineOn([chat])
    expect(again({ uri: '/v1/chat', headers: { 'x-key': 'a' } })).toBe('must')
    expect(engine.decide(viewOf({ uri: '/v1/chat' }))).toMatchObject({
      action: 'allow',
      missingKeys: ['header:x-key'],
      limit: { rule: { name: 'requests' }, remaining: 4 },
      reservation: undefined,
    })
  })
})

describe('an objection', () => {
  test('is none as long as the plain rules would let the request through, however often it is asked', () => {
    const { engine, objection } = engineOn([policy('p', { rules: [bucketRule('r', [], 1, 1)] })])
    for (let i = 0; i < 3; i++) expect(objection({ uri: '/' })).toBeUndefined()
    expect(engine.decide(viewOf({ uri: '/' }))).toMatchObject({ action: 'allow', limit: { remaining: 0 } })
  })

  test('is the reject that a decision would be', () => {
    const rules = [bucketRule('fast', ['header:x-key'], 1, 10), bucketRule('slow', ['header:x-key'], 2, 0.5)]
    const { engine, objection } = engineOn([policy('p', { rules })])
    const request = { uri: '/', headers: { 'x-key': 'a' } }
    engine.decide(viewOf(request))
    const refused = objection(request)
    expect(refused).toMatchObject({ action: 'reject', reason: 'token_bucket_exceeded', rule: { name: 'fast' }, requested: 1, available: 0 })
    expect(refused).toMatchObject({ canRetry: true, matchedPolicies: 1, limit: { remaining: 0, resetMs: 100, limitText: '1' } })
    expect(refused).toEqual(engine.decide(viewOf(request)))
    expect(objection({ uri: '/', headers: { 'x-key': 'b' } })).toBeUndefined()
  })

  test('tells descriptor values to those alone who ask for them', () => {
    const { engine } = engineOn([policy('p', { rules: [bucketRule('r', ['header:x-key'], 1)] })])
    const view = viewOf({ uri: '/', headers: { 'x-key': 'a' } })
    engine.decide(view)
    expect(engine.open(view)!.precheck()).toMatchObject({ descriptors: [] })
    expect(engine.open(view, { withDescriptors: true })!.precheck()).toMatchObject({ descriptors: [{ key: 'header:x-key', value: 'a' }] })
  })

  test('never comes from a rule that counts tokens: what it would take is not known yet', () => {
    const { engine, objection, clock } = engineOn([policy('p', { rules: [bucketRule('r', [], 5, 1), llmRule('budget', [], TOKENS)] })])
    for (let i = 0; i < 3; i++) engine.decide(viewOf({ uri: '/' }))
    expect(engine.decide(viewOf({ uri: '/' }))).toMatchObject({ action: 'reject', reason: 'tpm_exceeded' })
    expect(objection({ uri: '/' })).toBeUndefined()
    clock.advance(20_000)
    expect(engine.decide(viewOf({ uri: '/' }))).toMatchObject({ action: 'allow' })
  })

  test('comes from a plain rule that stands beside one that counts tokens, before it or after it', () => {
    const [plain, tokens] = [bucketRule('r', [], 1, 1), llmRule('budget', [], TOKENS)]
    for (const rules of [
      [plain, tokens],
      [tokens, plain],
    ]) {
      const { engine, objection } = engineOn([policy('p', { rules })])
      engine.decide(viewOf({ uri: '/' }))
      expect(objection({ uri: '/' })).toMatchObject({ reason: 'token_bucket_exceeded', rule: { name: 'r' }, requested: 1, available: 0 })
    }
  })

  test('never comes from a shadow policy', () => {
    const rules = [bucketRule('r', [], 1, 1)]
    const { engine, objection } = engineOn([policy('s', { mode: 'shadow', rules })])
    engine.decide(viewOf({ uri: '/' }))
    expect(engine.decide(viewOf({ uri: '/' }))).toMatchObject({ wouldRejects: [{ rule: { name: 'r' } }] })
    expect(objection({ uri: '/' })).toBeUndefined()
  })

  test('is that no host is named where one is needed', () => {
    const { objection } = engineOn([policy('h', { selector: { hosts: ['a.test'] }, rules: [bucketRule('r', [], 1)] })])
    expect(objection({ uri: '/' })).toEqual({ action: 'refuse', reason: 'missing_original_host' })
    expect(objection({ uri: '/', host: 'a.test' })).toBeUndefined()
  })

  test('asks no store where there is nothing to ask', () => {
    const { objection } = engineOn([policy('p', { rules: [llmRule('budget', [], TOKENS)] })], new AsyncStore())
    expect(objection({ uri: '/' })).toBeUndefined()
  })

  test('comes later from a store that answers later, each to its own request', async () => {
    const store = new AsyncStore()
    const { engine, objection } = engineOn([policy('p', { rules: [bucketRule('r', ['header:x-key'], 1)] })], store)
    const [a, b] = ['a', 'b'].map((caller) => ({ uri: '/', headers: { 'x-key': caller } }))
    const taken = engine.decide(viewOf(a!))
    await store.answerAll()
    await taken
    const [mine, other] = [objection(a!), objection(b!)]
    const decided = engine.decide(viewOf(b!))
    await store.answerAll((count) => count - 1)
    expect(await mine).toMatchObject({ action: 'reject', rule: { name: 'r' } })
    expect(await decided).toMatchObject({ action: 'allow' })
    expect(await other).toMatchObject({ action: 'reject' }) // answered last, when b had taken its one
    const allowed = objection({ uri: '/', headers: { 'x-key': 'c' } })
    await store.answerAll()
    expect(await allowed).toBeUndefined()
  })
})

type Head = Pick<PlainRequest, 'uri' | 'headers' | 'host'> & { readonly method?: string }

function engineOn(policies: readonly PolicyText[], store: CounterStore = newEmbeddedStore(64 * 1024)) {
  const clock = new ManualClock()
  const engine = new Engine({ store, clock })
  const parsed = parseBundle(JSON.stringify(bundle(1, ...policies)))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  engine.activate(compileBundle(parsed.bundle))
  return {
    engine,
    clock,
    needsBody: (head: Head) => engine.open(viewOf(head))!.needsBody(),
    objection: (head: Head) => engine.open(viewOf(head))!.precheck(),
  }
}

function viewOf(head: Head): PlainRequestView {
  return new PlainRequestView({ method: 'POST', ...head })
}
