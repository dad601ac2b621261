import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, llmRule, matching, type PolicyText, policy } from '../../test/support/bundles/bundles.ts'
import { planOf } from '../../test/support/bundles/compiled-rule.ts'
import { CALLERS, GoodCallers } from '../../test/support/callers/good-callers.ts'
import { override, setOverrides } from '../../test/support/overrides/overridden-engine.ts'
import { ManualClock } from '../../test/support/service/manual-clock.ts'
import type { CallerProblem } from '../request/caller.ts'
import { PlainRequestView } from '../request/view.ts'
import { newEmbeddedStore } from '../store/table/embedded-store.ts'
import type { Allowed, Decision } from './decision.ts'
import { limitCallOf } from './descriptors/descriptor-call.ts'
import { Engine } from './engine.ts'

const GOOD = { authorization: 'Bearer good:ada:blue' }
const BAD: readonly CallerProblem[] = ['malformed', 'issuer', 'algorithm', 'unknown_key', 'signature', 'expired', 'audience', 'revoked']

describe('callers in enforce mode', () => {
  test('refuse a request without a verified caller, whether or not a policy covers it, and take nothing', () => {
    const { decide } = setUp({ mode: 'enforce' }, policy('p', { selector: { pathPrefix: '/api' }, rules: [bucketRule('all', [], 1)] }))
    for (const uri of ['/api', '/']) {
      expect(decide({}, uri)).toEqual({ action: 'refuse', reason: 'unknown_caller', caller: { problem: 'no_credential' } })
    }
    expect([decide(GOOD, '/api').action, decide(GOOD, '/api').action, decide({}, '/api').reason]).toEqual([
      'allow',
      'reject',
      'unknown_caller',
    ])
  })

  test.each(BAD)('refuse a credential with the problem %s like one that is missing', (problem) => {
    const { decide } = setUp({ mode: 'enforce' })
    expect(decide({ authorization: `Bearer ${problem}` })).toEqual({ action: 'refuse', reason: 'unknown_caller', caller: { problem } })
  })

  test.each([
    ['keys_unavailable', 'caller_keys_unavailable'],
    ['busy', 'caller_check_busy'],
  ])('say that the service is at fault if the problem is %s', (problem, reason) => {
    const { decide } = setUp({ mode: 'enforce' })
    expect(decide({ authorization: `Bearer ${problem}` })).toEqual({ action: 'refuse', reason, caller: { problem } })
  })

  test('are not lifted by an override that puts all policies in shadow mode', () => {
    const { engine, clock, decide } = setUp({ mode: 'enforce' }, policy('p', { rules: [bucketRule('all', [], 1)] }))
    setOverrides(engine, [override('all_policies', { kind: 'shadow' }, clock)])
    expect([decide(GOOD), decide(GOOD), decide({})].map(({ action }) => action)).toEqual(['allow', 'allow', 'refuse'])
  })

  test('come after a missing host and blocks that read no caller, and before those that do and all limits', () => {
    const { decide } = setUp(
      { mode: 'enforce' },
      policy('hosts', { selector: { hosts: ['a.test'] }, rules: [] }),
      policy('p', {
        rules: [
          blockRule('address', { 'header:x-bad': '1' }),
          blockRule('caller', { 'caller:team': 'red' }),
          blockRule('claim', { 'jwt:sub': 'eve' }),
          bucketRule('repeated', ['header:x-key'], 5),
        ],
      }),
    )
    const reasons = (headers: object, host = 'a.test'): unknown => decide(headers, '/', host).reason
    expect(reasons({ 'x-bad': '1' }, '')).toBe('missing_original_host')
    expect(reasons({ 'x-bad': '1' })).toBe('blocked')
    expect(reasons({ 'x-key': ['1', '2'] })).toBe('unknown_caller')
    expect(reasons({ authorization: 'Bearer expired' })).toBe('unknown_caller')
    expect(reasons({ authorization: 'Bearer good:ada:red' })).toBe('blocked')
    expect(reasons({ authorization: 'Bearer good:eve' })).toBe('blocked')
    expect(reasons({ ...GOOD, 'x-key': ['1', '2'] })).toBe('repeated_descriptor')
    expect(reasons(GOOD)).toBe('all_rules_passed')
  })

  test('come before an else that blocks whoever no other rule matches by the caller', () => {
    const rules = [matching({ 'caller:team': 'blue' }, bucketRule('blue', ['caller:id'], 5)), blockRule('others', 'else')]
    const { decide } = setUp({ mode: 'enforce' }, policy('p', { rules }))
    expect([{}, GOOD, { authorization: 'Bearer good:eve' }].map((headers) => decide(headers).reason)).toEqual([
      'unknown_caller',
      'all_rules_passed',
      'blocked',
    ])
  })

  test('have no say in calls of the rate limit service', () => {
    const rules = [bucketRule('user', ['descriptor:user'], 1)]
    const { engine, reader } = setUp({ mode: 'enforce' }, policy('d', { selector: { domain: 'd' }, rules }))
    const call = limitCallOf({ domain: 'd', descriptors: [{ entries: [['user', 'ada']] }] })
    expect(engine.decideDescriptors(call)).toMatchObject({ decision: { action: 'allow', caller: undefined } })
    expect(reader.addresses).toEqual([])
  })

  test('check no credential of a request that is blocked anyway', () => {
    const { decide, reader } = setUp({ mode: 'enforce' }, policy('p', { rules: [blockRule('b', { 'header:x-bad': '1' })] }))
    decide({ 'x-bad': '1' })
    expect(reader.addresses).toEqual([])
  })

  test.each(['/health', '/health/live', '/health?x=%2e%2e', '/health/'])('let %s pass if /health is excepted', (uri) => {
    const { decide } = setUp({ mode: 'enforce', except_paths: ['/health'] })
    expect(decide({}, uri)).toMatchObject({ action: 'allow', caller: { problem: 'no_credential' } })
  })

  test.each([
    '/healthy',
    '/HEALTH',
    '/api/../health',
    '/health/..%2fapi',
    '/health/%2e%2e/api',
    '/health;x=1',
    '/health/..;/api',
    '//health',
    '/health//api',
    '/health/./x',
    '/%68ealth',
    '/health%2fapi',
    '/health\\..\\api',
    'http://a.test/health',
    '/health#/api',
    '/health/%c0%ae%c0%ae/api',
  ])('do not except %s, which a backend may read in another way', (uri) => {
    const { decide } = setUp({ mode: 'enforce', except_paths: ['/health'] })
    expect(decide({}, uri).reason).toBe('unknown_caller')
  })

  const PREFLIGHT = { origin: 'https://app.test', 'access-control-request-method': 'POST' }

  test('let a preflight pass if the bundle excepts them, and limit it', () => {
    const { decide } = setUp({ mode: 'enforce', except_preflights: true }, policy('p', { rules: [bucketRule('all', [], 1)] }))
    const ask = (headers: object): unknown => decide(headers, '/v1/chat', 'a.test', 'OPTIONS').reason
    expect([ask(PREFLIGHT), ask({ ...PREFLIGHT, 'content-length': '0' })]).toEqual(['all_rules_passed', 'token_bucket_exceeded'])
  })

  test.each<[string, object, string?]>([
    ['with another method', PREFLIGHT, 'POST'],
    ['whose method is in lower case', PREFLIGHT, 'options'],
    ['without an origin', { ...PREFLIGHT, origin: '' }],
    ['without a method to ask for', { ...PREFLIGHT, 'access-control-request-method': undefined }],
    ['with two origins', { ...PREFLIGHT, origin: ['https://a.test', 'https://b.test'] }],
    ['with a body', { ...PREFLIGHT, 'content-length': '2' }],
    ['with two lengths', { ...PREFLIGHT, 'content-length': ['0', '0'] }],
    ['with a body in chunks', { ...PREFLIGHT, 'transfer-encoding': 'chunked' }],
    ['with a method for the backend', { ...PREFLIGHT, 'x-http-method-override': 'POST' }],
    ['with a bad credential', { ...PREFLIGHT, authorization: 'Bearer expired' }],
  ])('do not take a request %s for a preflight', (_, headers, method = 'OPTIONS') => {
    const { decide } = setUp({ mode: 'enforce', except_preflights: true })
    expect(decide(JSON.parse(JSON.stringify(headers)), '/', 'a.test', method).reason).toBe('unknown_caller')
  })

  test('refuse preflights unless the bundle excepts them', () => {
    const { decide } = setUp({ mode: 'enforce', except_preflights: false })
    expect(decide(PREFLIGHT, '/', 'a.test', 'OPTIONS').reason).toBe('unknown_caller')
  })

  test('end before a body is asked for, and let the body of a verified caller be read', () => {
    const { engine } = setUp({ mode: 'enforce' }, policy('p', { rules: [llmRule('t', ['caller:team'], { tokens_per_minute: 1000 })] }))
    expect(engine.open(viewOf({}))!.identify()).toMatchObject({ reason: 'unknown_caller' })
    const evaluation = engine.open(viewOf(GOOD))!
    expect([evaluation.identify(), evaluation.needsBody(), evaluation.bodyCaller()]).toEqual([undefined, 'must', ['caller:team', 'blue']])
  })
})

describe('callers without a mode, and in shadow mode,', () => {
  test.each([undefined, 'shadow'])('refuse nobody: a bad credential has no labels (%s)', (mode) => {
    const rules = [matching({ 'caller:team': '*' }, bucketRule('team', ['caller:team'], 1)), matching('else', bucketRule('others', [], 2))]
    const { decide } = setUp({ ...(mode !== undefined && { mode }) }, policy('p', { rules }))
    const names = [GOOD, GOOD, {}, { authorization: 'Bearer expired' }, {}].map((headers) => {
      const { action, rule } = decide(headers) as Allowed
      return `${action} ${rule?.name}`
    })
    expect(names).toEqual(['allow team', 'reject team', 'allow others', 'allow others', 'reject others'])
  })

  test('name what would be refused in shadow mode alone', () => {
    const wouldRefuse = (mode: object, headers: object, uri = '/'): unknown => (setUp(mode).decide(headers, uri) as Allowed).wouldRefuse
    const shadow = { mode: 'shadow', except_paths: ['/health'] }
    expect(wouldRefuse(shadow, {})).toBe('unknown_caller')
    expect(wouldRefuse(shadow, { authorization: 'Bearer busy' })).toBe('caller_check_busy')
    expect(wouldRefuse(shadow, {}, '/health')).toBeUndefined()
    expect(wouldRefuse(shadow, GOOD)).toBeUndefined()
    expect(wouldRefuse({}, {})).toBeUndefined()
  })
})

describe('a verified caller', () => {
  const limits = policy('p', { rules: [bucketRule('id', ['caller:id'], 1), bucketRule('sub', ['jwt:sub'], 1)] })

  test('is counted by id and labels, and has the claims of the verified token alone', () => {
    const { decide } = setUp({}, limits)
    const keys = (headers: object): unknown => {
      const { descriptors } = decide(headers) as Allowed
      return Object.fromEntries(descriptors.map(({ key, value }) => [key, value]))
    }
    expect(keys(GOOD)).toEqual({ 'caller:id': 'okta:ada', 'jwt:sub': 'ada' })
    expect(keys({ 'x-api-key': 'edge_7' })).toEqual({ 'caller:id': 'key:7' })
    const forged = `Bearer x.${Buffer.from('{"sub":"ada"}').toString('base64url')}.y`
    expect(keys({ authorization: forged })).toEqual({})
  })

  test('is found out later where its keys are waited for, with the time of that moment', async () => {
    const { engine, clock, reader } = setUp({ mode: 'enforce' }, limits)
    const options = { withDescriptors: false, nowMs: clock.nowMs() }
    const pending = engine.decide(viewOf({ authorization: 'Bearer later:ada:blue' }), options)
    expect(pending).toBeInstanceOf(Promise)
    expect(await pending).toMatchObject({ action: 'allow', caller: { id: 'okta:ada' } })
    expect((engine.decide(viewOf(GOOD)) as Decision).action).toBe('reject')
    engine.decide(viewOf({ 'x-forwarded-for': '2001:db8:1:2:3::4' }))
    expect(reader.addresses).toEqual(['192.0.2.7', '192.0.2.7', '2001:db8:1:2::'])
  })

  test('is whoever the one who asks says', () => {
    const { engine } = setUp({ mode: 'enforce' }, limits)
    const caller = { id: 'x', labels: new Map(), claims: { sub: 'eve' } }
    expect(engine.decide(viewOf({}), { caller, withDescriptors: true })).toMatchObject({
      action: 'allow',
      descriptors: [
        { key: 'caller:id', value: 'x' },
        { key: 'jwt:sub', value: 'eve' },
      ],
    })
  })

  test('is explained, also where a block decides, and so is why nobody knows one', () => {
    const { engine } = setUp({ mode: 'enforce' }, policy('p', { rules: [blockRule('b', { 'header:x-bad': '1' })] }))
    const explained = (headers: object): unknown => {
      const { decision, caller, policies } = engine.explain(viewOf(headers)) as Awaited<ReturnType<Engine['explain']>>
      return [decision.reason, caller, policies.length]
    }
    expect(explained(GOOD)).toEqual(['all_rules_passed', expect.objectContaining({ id: 'okta:ada' }), 1])
    expect(explained({ ...GOOD, 'x-bad': '1' })).toEqual(['blocked', expect.objectContaining({ id: 'okta:ada' }), 1])
    expect(explained({ authorization: 'Bearer expired' })).toEqual(['unknown_caller', { problem: 'expired' }, 1])
  })

  test('loses its stream to a block by label, as its decision found out or as its credential says now', () => {
    const block = blockRule('b', { 'caller:team': 'red' }, { cut_streams: true })
    const { engine } = setUp({}, policy('p', { rules: [block] }))
    const caller = { id: 'okta:eve', labels: new Map([['team', 'red']]), claims: undefined }
    expect(engine.findStreamCut(viewOf({}), undefined, caller)?.name).toBe('b')
    expect(engine.findStreamCut(viewOf({ authorization: 'Bearer good:eve:red' }), undefined)?.name).toBe('b')
    expect(engine.findStreamCut(viewOf({ authorization: 'Bearer later:eve:red' }), undefined)).toBeUndefined()
    expect(engine.findStreamCut(viewOf(GOOD), undefined)).toBeUndefined()
  })
})

test('without callers in the bundle, nobody is looked for and claims are read as they were sent', () => {
  const clock = new ManualClock()
  const reader = new GoodCallers()
  const engine = new Engine({ store: newEmbeddedStore(1 << 20), clock, callerReaderOf: () => reader })
  engine.activate(planOf(bundle(1, policy('p', { rules: [bucketRule('r', ['jwt:sub'], 1)] }))))
  const authorization = `Bearer x.${Buffer.from('{"sub":"ada"}').toString('base64url')}.y`
  const decision = engine.decide(viewOf({ authorization }), { withDescriptors: true })
  expect(decision).toMatchObject({ caller: undefined, descriptors: [{ key: 'jwt:sub', value: 'ada' }] })
  expect(reader.addresses).toEqual([])
})

function setUp(callers: object, ...policies: readonly PolicyText[]) {
  const clock = new ManualClock()
  const reader = new GoodCallers()
  const engine = new Engine({ store: newEmbeddedStore(1 << 20), clock, callerReaderOf: () => reader })
  engine.activate(planOf({ ...bundle(1, ...policies), callers: { ...CALLERS, ...callers } }))
  const decide = (headers: object, uri = '/', host = 'a.test', method = 'GET'): Decision =>
    engine.decide(viewOf(headers, uri, host, method), { withDescriptors: true }) as Decision
  return { engine, clock, reader, decide }
}

function viewOf(headers: object, uri = '/', host = 'a.test', method = 'GET'): PlainRequestView {
  return new PlainRequestView({ method, uri, host, headers: { 'x-forwarded-for': '192.0.2.7', ...headers } })
}
