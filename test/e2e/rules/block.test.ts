import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, llmRule, matching, policy } from '../../support/bundles/bundles.ts'
import { HttpBackend } from '../../support/proxy/backend.ts'
import { proxying, RawClient, readAnswer, valuesOf } from '../../support/proxy/proxy.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'

const SECRET = 'a secret of some length'
const ACME = ['X-Org', 'acme'] as const
const MATCH = { 'header:x-org': 'acme' }

describe('a blocked request', () => {
  test('gets 403 blocked with no time to come back, and takes nothing', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [bucketRule('all', [], 2, 0.001), blockRule('acme', MATCH)] })) })
    for (let i = 0; i < 5; i++) {
      const { status, headers, body } = await edge.decide({ fields: [ACME] })
      expect([status, headers['x-edge-reason'], headers['x-should-retry'], body]).toEqual([403, 'blocked', 'false', ''])
      expect(Object.keys(headers).filter((name) => name.startsWith('ratelimit') || name === 'retry-after')).toEqual([])
    }
    expect(await edge.decideTimes(3)).toEqual([200, 200, 429])
  })

  test('gets the same bytes from both wires', async () => {
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [blockRule('all')] })) })
    const question = 'POST /v1/decision HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n'
    const answers = await Promise.all(
      ['\r\n', 'Content-Length: 1\r\n\r\nx'].map(async (rest) => {
        const client = RawClient.connect(edge.port)
        client.send(question + rest)
        const { line, fields } = await client.next()
        return [line, fields.filter(([name]) => name !== 'Date')]
      }),
    )
    expect(answers[0]).toEqual(answers[1])
    expect(answers[0]![0]).toBe('HTTP/1.1 403 Forbidden')
  })

  test('is refused for its own mistakes first, and before a repeated field', async () => {
    const rules = [bucketRule('keyed', ['header:x-key'], 9), blockRule('acme', MATCH)]
    const edge = await running({ bundle: bundle(1, policy('p', { rules })) })
    const twice = [['X-Key', 'a'] as const, ['X-Key', 'b'] as const]
    const reasonOf = async (fields: readonly (readonly [string, string])[], path = '/v1/decision') => {
      const { status, headers } = await edge.post(path, fields)
      return [status, headers['x-edge-reason']]
    }
    const originals = [['X-Original-Method', 'GET'] as const, ['X-Original-URI', '/'] as const]
    expect(await reasonOf([ACME, ...twice])).toEqual([400, 'missing_original_method'])
    expect(await reasonOf([...originals, ACME, ...twice])).toEqual([403, 'blocked'])
    expect(await reasonOf([...originals, ...twice])).toEqual([400, 'repeated_descriptor'])
    expect(await reasonOf([...originals, ACME, ACME])).toEqual([400, 'repeated_descriptor'])
  })

  test('shows in metrics, log and debug headers', async () => {
    const edge = await running({
      bundle: bundle(1, policy('p', { selector: { pathPrefix: '/v1' }, rules: [blockRule('acme', MATCH)] })),
      env: { EDGE_DEBUG_SESSION_SECRET: SECRET },
    })
    const login = await edge.post('/v1/debug/session', [['X-Edge-Debug-Secret', SECRET]])
    const cookie = ['Cookie', login.headers['set-cookie']!.split(';')[0]!] as const
    const { headers } = await edge.decide({ uri: '/v1/x', fields: [ACME, cookie] })
    expect(headers).toMatchObject({
      'x-edge-debug-decision': 'reject',
      'x-edge-debug-mode': 'enforce',
      'x-edge-debug-reason': 'blocked',
      'x-edge-debug-policy': 'p',
      'x-edge-debug-rule': 'acme',
      'x-edge-debug-descriptor-1-key': 'header:x-org',
      'x-edge-debug-descriptor-1-value': 'acme',
    })
    await edge.decide({ uri: '/v1/x', fields: [ACME] })
    expect(await edge.metric('edge_decisions_total{action="reject",reason="blocked",policy="p",route="/v1"}')).toBe(2)
    expect(await edge.metric('edge_rejects_total{policy="p",rule="acme",reason="blocked"}')).toBe(2)
    expect((await untilLogged(edge, 'reject'))[0]).toMatchObject({ policy: 'p', rule: 'acme', reason: 'blocked', route: '/v1' })
  })

  test('in shadow is let through, counted and logged', async () => {
    const shadow = policy('s', { mode: 'shadow', rules: [bucketRule('all', [], 1), blockRule('acme', MATCH)] })
    const edge = await running({ bundle: bundle(1, shadow) })
    for (let i = 0; i < 2; i++) {
      const { status, headers } = await edge.decide({ fields: [ACME] })
      expect([status, headers['x-edge-reason'], headers['x-should-retry']]).toEqual([200, undefined, undefined])
    }
    expect(await edge.metric('edge_would_reject_total{policy="s",rule="acme",reason="blocked"}')).toBe(2)
    expect(await edge.metric('edge_rejects_total{policy="s",rule="acme",reason="blocked"}')).toBe(0)
    expect(await edge.metric('edge_would_reject_total{policy="s",rule="all",reason="token_bucket_exceeded"}')).toBe(0)
    expect((await untilLogged(edge, 'would_reject'))[0]).toMatchObject({ policy: 's', rule: 'acme', reason: 'blocked' })
    expect((await edge.decideTimes(1))[0]).toBe(200)
    expect(await edge.metric('edge_would_reject_total{policy="s",rule="all",reason="token_bucket_exceeded"}')).toBe(0)
  })
})

describe('a block with an end', () => {
  const blockUntil = (expires_at: string) =>
    policy('p', { rules: [blockRule('acme', MATCH, { expires_at }), matching('else', bucketRule('others', [], 9))] })

  test('covers nobody from then on, and the log says so once', async () => {
    const clock = new ManualClock()
    const edge = await running({ clock, bundle: bundle(1, blockUntil('2026-01-15T12:00:10Z')) })
    expect((await edge.decide({ fields: [ACME] })).status).toBe(403)
    expect(edge.logged('block_expired')).toEqual([])
    clock.advance(10_000)
    expect((await edge.decide({ fields: [ACME] })).headers['ratelimit-limit']).toBe('9')
    expect(await untilLogged(edge, 'block_expired')).toMatchObject([
      { level: 40, policy: 'p', rule: 'acme', expires_at: '2026-01-15T12:00:10Z' },
    ])
    await edge.publish(bundle(2, policy('q', { rules: [] })))
    expect(await untilLogged(edge, 'block_expired')).toHaveLength(1)
  })

  test('that has passed when the bundle is loaded is loaded, with a warning', async () => {
    const edge = await running({
      clock: new ManualClock(),
      bundle: bundle(1, blockUntil('2026-01-15T11:59:59Z'), policy('q', { rules: [] })),
    })
    expect((await edge.decide({ fields: [ACME] })).status).toBe(200)
    expect(await untilLogged(edge, 'block_expired')).toMatchObject([{ policy: 'p', rule: 'acme' }])
  })
})

describe('in reverse_proxy a blocked client', () => {
  test('reads the message of the block in the error, and the backend hears nothing', async () => {
    const backend = await HttpBackend.start()
    const rules = [
      blockRule('acme', MATCH, { message: 'Unpaid since May. Write to billing@example.com.' }),
      blockRule('eve', { 'header:x-org': 'eve' }),
    ]
    const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules })) })
    const blocked = await edge.get('/', [ACME])
    expect([blocked.status, blocked.headers['x-edge-reason'], blocked.headers['x-should-retry']]).toEqual([403, 'blocked', 'false'])
    expect(JSON.parse(blocked.body)).toEqual({
      error: { message: 'Unpaid since May. Write to billing@example.com.', type: 'permission_error', code: 'blocked' },
    })
    const eve = await edge.get('/', [['X-Org', 'eve']])
    expect(JSON.parse(eve.body).error.message).toBe('Access is blocked.')
    expect(backend.seen).toEqual([])
    expect((await edge.get('/')).status).toBe(200)
  })

  test('is not asked for its body, even where a token budget would read it', async () => {
    const backend = await HttpBackend.start()
    const rules = [llmRule('budget', [], { tokens_per_minute: 1000 }), blockRule('acme', MATCH)]
    const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules })) })
    const client = RawClient.connect(edge.port)
    client.send('POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Org: acme\r\nExpect: 100-continue\r\nContent-Length: 100000000\r\n\r\n')
    const answer = readAnswer(await client.closed())
    expect([answer.status, valuesOf(answer, 'x-edge-reason')]).toEqual([403, ['blocked']])
    expect((await ask(edge.port, 'POST', '/v1/chat/completions', [], '{"messages":[],"max_tokens":1000}')).status).toBe(200)
  })

  test('is blocked by the model that its body names, when that was read', async () => {
    const backend = await HttpBackend.start()
    const rules = [blockRule('old', { 'llm:model': ['gpt-3*', 'o1'] }), matching('else', bucketRule('others', [], 2))]
    const edge = await proxying(backend, { bundle: bundle(1, policy('p', { rules })), clock: new ManualClock() })
    const post = async (body: string) => {
      const { status, headers } = await ask(edge.port, 'POST', '/v1/chat/completions', [], body)
      return [status, headers['x-edge-reason'] ?? headers['ratelimit-remaining']]
    }
    for (const body of ['{"model":"gpt-3.5"}', '{"mo\\u0064el":"o1"}']) expect(await post(body)).toEqual([403, 'blocked'])
    expect(backend.seen).toEqual([])
    expect(await post('{"model":"gpt-5"}')).toEqual([200, '1'])
    expect(await post('{}')).toEqual([200, '0'])
    expect(await post('{"model":"gpt-5"}')).toEqual([429, 'token_bucket_exceeded'])
    expect(await edge.metric('edge_descriptor_missing_total{key="llm:model"}')).toBe(1)
  })

  test('is not asked for its body either where it is blocked by a respelled field', async () => {
    const edge = await proxying(await HttpBackend.start(), { bundle: bundle(1, policy('p', { rules: [blockRule('acme', MATCH)] })) })
    expect((await edge.get('/', [['X_Org', 'acme']])).status).toBe(403)
  })
})
