import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, llmRule, type PolicyText, policy } from '../../support/bundles/bundles.ts'
import { CHAT, fakeLlm, HELLO, HELLO_TOKENS, proxyEnv } from '../../support/llm/llm-proxy.ts'
import { answeringLlm, type ScriptedLlm } from '../../support/llm/scripted-llm.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask, type Fields } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const MISSING = 'edge_descriptor_missing_total{key="llm:model"}'
const GZIP: Fields = [['Content-Encoding', 'gzip']]

/** As Python reads it: in UTF-8, with a byte order mark, and in UTF-16 of both orders, with one or without. */
function encodings(json: string): Buffer[] {
  const [little, big] = [Buffer.from(json, 'utf16le'), Buffer.from(json, 'utf16le').swap16()]
  return [Buffer.from(json), Buffer.from(`\ufeff${json}`), little, Buffer.concat([Buffer.from([0xfe, 0xff]), big]), big]
}

describe('a block of a model', () => {
  const rules = [blockRule('forbidden', { 'llm:model': 'forbidden' })]

  test('covers it however the body is encoded', async () => {
    const { edge } = await limited(policy('p', { rules }))
    for (const body of encodings('{"model":"forbidden"}')) expect((await ask(edge.port, 'POST', CHAT, [], body)).status).toBe(403)
    for (const body of encodings('{"model":"other"}')) expect((await ask(edge.port, 'POST', CHAT, [], body)).status).toBe(200)
  })

  test.each([
    ['with a number that only some know', '{"model":"forbidden","temperature":NaN}', []],
    ['in UTF-32', Buffer.from('{\0\0\0"\0\0\0'), []],
    ['that is no JSON', 'model=forbidden', []],
    [
      'labelled with a charset that hides names',
      '{"model":"allowed","x":"+ACIALAAi-model+ACIAOgAi-forbidden"}',
      [['Content-Type', 'application/json; charset=utf-7']],
    ],
    [
      'labelled with two charsets, of which either may count',
      '{"model":"allowed","x":"+ACIALAAi-model+ACIAOgAi-forbidden"}',
      [['Content-Type', 'application/json; charset=utf-8; charset=utf-7']],
    ],
    ['labelled with no name of a charset', '{"model":"allowed"}', [['Content-Type', 'application/json; charset=x=utf-8']]],
    ['in a coding that edge does not know', '(\xb5/\xfd and more)', [['Content-Encoding', 'zstd']]],
  ] as const)('refuses a body %s: some backend may find that model in it', async (_what, body, fields) => {
    const { edge, backend } = await limited(policy('p', { rules }))
    const { status, headers } = await ask(edge.port, 'POST', CHAT, fields, body)
    expect([status, headers['x-edge-reason'], backend.calls]).toEqual([400, 'repeated_descriptor', []])
  })

  test('lets pass what has no body, and what another field of the rule rules out', async () => {
    const both = [blockRule('forbidden', { 'llm:model': 'forbidden', 'header:x-team': 'red' })]
    const { edge } = await limited(policy('p', { rules: both }), {})
    expect((await ask(edge.port, 'GET', '/v1/models')).status).toBe(200)
    expect((await ask(edge.port, 'POST', CHAT, [['X-Team', 'blue']], 'no JSON')).status).toBe(200)
    expect((await ask(edge.port, 'POST', CHAT, [['X-Team', 'red']], 'no JSON')).status).toBe(400)
  })

  test('in shadow changes nothing', async () => {
    const { edge } = await limited(policy('p', { mode: 'shadow', rules }))
    expect((await ask(edge.port, 'POST', CHAT, [], 'no JSON')).status).toBe(200)
  })
})

describe('a limit for each model', () => {
  test('counts by what the body says, however that is spelled or packed', async () => {
    const { edge, backend } = await limited(policy('p', { rules: [bucketRule('r', ['llm:model'], 1)] }))
    const bodies = ['{"model":"m-1"}', '{"\\u006dodel":"m\\u002d1"}', ' {"x":[1], "model" : "m-1" } ']
    const statuses: number[] = []
    for (const body of bodies) statuses.push((await ask(edge.port, 'POST', CHAT, [], body)).status)
    statuses.push((await ask(edge.port, 'POST', CHAT, GZIP, gzipSync(bodies[0]!))).status)
    statuses.push((await ask(edge.port, 'PUT', '/anything', [], '{"model":"m-2"}')).status)
    expect(statuses).toEqual([200, 429, 429, 429, 200])
    expect(backend.calls.map(({ body }) => body)).toEqual([bodies[0], '{"model":"m-2"}'])
    expect(await edge.metric(MISSING)).toBe(0)
  })

  test.each([
    ['no body', ''],
    ['no model', '{"messages":[]}'],
    ['an empty one', '{"model":""}'],
    ['a number', '{"model":5}'],
    ['a list', '{"model":["m"]}'],
    ['one of 257 characters', `{"model":"${'m'.repeat(257)}"}`],
    ['one further inside', '{"x":{"model":"m"}}'],
    ['no JSON', 'model=m'],
  ])('is skipped where the body has %s, and the key is counted', async (_, body) => {
    const { edge } = await limited(policy('p', { rules: [bucketRule('r', ['llm:model'], 1)] }))
    for (let i = 0; i < 2; i++) expect((await ask(edge.port, 'POST', CHAT, [], body)).status).toBe(200)
    expect(await edge.metric(MISSING)).toBe(2)
  })

  test('is for the same model in UTF-16 and with a byte order mark', async () => {
    const { edge } = await limited(policy('p', { rules: [bucketRule('r', ['llm:model'], 1)] }))
    const statuses: number[] = []
    for (const body of encodings('{"model":"m-1"}')) statuses.push((await ask(edge.port, 'POST', CHAT, [], body)).status)
    expect(statuses).toEqual([200, 429, 429, 429, 429])
  })

  test('refuses a body that names two, and takes nothing', async () => {
    const { edge, backend } = await limited(policy('p', { rules: [bucketRule('all', [], 2), bucketRule('r', ['llm:model'], 1)] }))
    for (const body of ['{"model":"a","model":"b"}', '{"model":"a","mo\\u0064el":"a"}', '{"model":"a","max_tokens":1,"max_tokens":2}']) {
      const refused = await ask(edge.port, 'POST', CHAT, [], body)
      expect([refused.status, refused.headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
    }
    expect(backend.calls).toEqual([])
    expect((await ask(edge.port, 'POST', CHAT, [], '{"model":"a"}')).headers['ratelimit-remaining']).toBe('0')
  })

  test('reads no body that cannot matter, and then does not count the model as missing', async () => {
    const { edge, backend } = await limited(
      policy('p', { rules: [bucketRule('all', [], 1), bucketRule('r', ['header:x-key', 'llm:model'], 1)] }),
      { EDGE_MAX_BODY_BYTES: '1k' },
    )
    // It lacks the other key: its body passes unread, however large it is.
    const large = `{"model":"m","x":"${'x'.repeat(2000)}"}`
    expect((await ask(edge.port, 'POST', CHAT, [], large)).status).toBe(200)
    expect(backend.calls[0]!.body).toBe(large)
    // The head alone rejects: the body is not read, which would be too large.
    expect((await ask(edge.port, 'POST', CHAT, [['X-Key', 'a']], '{"model":"m"}')).status).toBe(429)
    expect(await edge.metric(MISSING)).toBe(0)
    expect(await edge.metric('edge_descriptor_missing_total{key="header:x-key"}')).toBe(1)
  })

  test('reads what a plain rule needs within the bound of bodies: 413 beyond it', async () => {
    const { edge } = await limited(policy('p', { rules: [bucketRule('r', ['llm:model'], 1)] }), { EDGE_MAX_BODY_BYTES: '1k' })
    const { status } = await ask(edge.port, 'POST', CHAT, [], `{"model":"m","x":"${'x'.repeat(2000)}"}`)
    expect(status).toBe(413)
  })
})

test('a token budget for each model reserves and settles in that model’s bucket', async () => {
  const backend = await fakeLlm({ tokens: 5 })
  const budget = policy('p', { rules: [llmRule('budget', ['llm:model'], { tokens_per_minute: 1000, max_completion_tokens: 100 })] })
  const edge = await running({ clock: new ManualClock(), bundle: bundle(1, budget), env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend) } })
  const remaining = async (model: string): Promise<number> => {
    const { headers } = await ask(edge.port, 'POST', '/v1/embeddings', [], JSON.stringify({ model, input: '' }))
    return Number(headers['ratelimit-remaining'])
  }
  const { status } = await ask(edge.port, 'POST', CHAT, [], JSON.stringify({ model: 'a', messages: HELLO }))
  expect(status).toBe(200)
  await expect.poll(() => remaining('a')).toBe(1000 - HELLO_TOKENS - 5)
  expect(await remaining('b')).toBe(1000)
})

test('a shadow policy keyed by the model changes no response, and is left out where the body names two', async () => {
  const rules = [bucketRule('all', [], 1), bucketRule('r', ['llm:model'], 1)]
  const { edge, backend } = await limited(policy('s', { mode: 'shadow', rules }))
  const bodies = ['{"model":"a","model":"b"}', '{"model":"a","model":"b"}', '{"model":"a"}', '{"model":"a"}']
  for (const body of bodies) {
    const { status, headers } = await ask(edge.port, 'POST', CHAT, [], body)
    expect([status, Object.keys(headers).filter((name) => /ratelimit|x-edge/.test(name))]).toEqual([200, []])
  }
  expect(backend.calls.map(({ body }) => body)).toEqual(bodies)
  expect(await edge.metric('edge_would_reject_total{policy="s",rule="all",reason="token_bucket_exceeded"}')).toBe(1)
  expect(await edge.metric(MISSING)).toBe(0)
})

async function limited(
  limits: PolicyText,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly edge: Edge; readonly backend: ScriptedLlm }> {
  const backend = await answeringLlm(200, { ok: true })
  const settings = { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend), ...env }
  return { edge: await running({ clock: new ManualClock(), bundle: bundle(1, limits), env: settings }), backend }
}
