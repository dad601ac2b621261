import { createGzip } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { blockRule, bucketRule, bundle, llmRule, policy, unlimitedRule } from '../../support/bundles/bundles.ts'
import { both, CHAT, DAY_TOKENS, HELLO, HELLO_TOKENS, llmProxy, MESSAGES, MINUTE_TOKENS, RESPONSES } from '../../support/llm/llm-proxy.ts'
import { anthropicStream, chatChunk, responsesStream, sse } from '../../support/llm/llm-streams.ts'
import { scriptedLlm } from '../../support/llm/scripted-llm.ts'
import type { Fields } from '../../support/service/http.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const ACME: Fields = [['X-Org', 'acme']]
const MATCH = { 'header:x-org': 'acme' }
const ASKED = { stream: true, messages: HELLO }
const BUDGET = { tokens_per_minute: MINUTE_TOKENS, tokens_per_day: DAY_TOKENS }
/** Eight characters: two tokens. */
const WORDS = chatChunk({ content: 'w001w002' }, null, 0)

describe('a block that cuts streams', () => {
  test('ends those of the callers it matches as a truncation does, and settles them once', async () => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write(WORDS)
    })
    const proxy = await llmProxy(backend)
    const [cut, other] = [proxy.open(CHAT, ASKED, ACME), proxy.open(CHAT, ASKED, [['X-Org', 'umbrella']])]
    await Promise.all([cut.untilText('w002'), other.untilText('w002')])
    await proxy.edge.publish(blocking({ cut_streams: true }))
    await cut.untilClosed()
    expect(cut.outcome).toBe('whole')
    expect(cut.data.slice(1)).toMatchObject([
      { choices: [{ index: 0, delta: {}, finish_reason: 'length' }], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } },
      '[DONE]',
    ])
    const cutCall = backend.calls.find(({ req }) => req.headers['x-org'] === 'acme')!
    await until(() => cutCall.isAborted)
    expect(other.outcome).toBe('open')
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
    expect((await proxy.post(CHAT, ASKED, ACME)).status).toBe(403)
    expect(await proxy.edge.metric('edge_proxy_streams_cut_total{policy="incident",rule="acme"}')).toBe(1)
    expect(await untilLogged(proxy.edge, 'streams_cut')).toMatchObject([{ policy: 'incident', rule: 'acme', streams: 1 }])
    // Nobody else is touched: the other stream goes on to its end.
    const otherCall = backend.calls.find(({ req }) => req.headers['x-org'] === 'umbrella')!
    otherCall.end(`${WORDS}data: [DONE]\n\n`)
    expect((await other.untilClosed()).text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(await proxy.spent([['X-Org', 'umbrella']])).toEqual(both(HELLO_TOKENS + 2 + HELLO_TOKENS + 4))
    expect(await proxy.settlements()).toEqual({ truncated: 1, done: 1 })
  })

  test('in each dialect ends them with an error that says so, where streams are cut with errors', async () => {
    const dialects: readonly (readonly [path: string, text: string, end: RegExp])[] = [
      [CHAT, WORDS, /"code":"blocked".*data: \[DONE\]\n\n$/s],
      [RESPONSES, cutBefore(responsesStream(['w001', 'w002']), 'response.completed'), /event: error\n.*"code":"blocked"/s],
      [
        MESSAGES,
        cutBefore(anthropicStream(['w001', 'w002']), 'content_block_stop'),
        /event: error\n.*"permission_error".*"code":"blocked"/s,
      ],
    ]
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write(dialects.find(([path]) => path === call.req.url)![1])
    })
    const proxy = await llmProxy(backend, { streaming: { on_limit_exceeded: 'error_chunk' } })
    const clients = await Promise.all(dialects.map(([path]) => proxy.open(path, ASKED, ACME).untilText('w002')))
    await proxy.edge.publish(blocking({ cut_streams: true }))
    for (const [i, client] of clients.entries()) {
      expect((await client.untilClosed()).text).toMatch(dialects[i]![2])
      expect(client.outcome).toBe('whole')
    }
  })

  test('in the middle of an event sends nothing of it', async () => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write(`${WORDS}data: {"choices":[{"index":0,"delta":{"content":"half`)
    })
    const proxy = await llmProxy(backend)
    const client = await proxy.open(CHAT, ASKED, ACME).untilText('w002')
    await proxy.edge.publish(blocking({ cut_streams: true }))
    expect((await client.untilClosed()).text).not.toContain('half')
    expect(client.data.at(-1)).toBe('[DONE]')
  })

  test('ends compressed streams too', async () => {
    const backend = await scriptedLlm((call) => {
      call.begin({ 'Content-Encoding': 'gzip' })
      const gzip = createGzip()
      onTestFinished(() => void gzip.destroy())
      gzip.on('data', (bytes: Buffer) => void call.writeNow(bytes))
      gzip.write(WORDS)
      gzip.flush()
    })
    const proxy = await llmProxy(backend)
    const client = await proxy.open(CHAT, ASKED, ACME).untilText('w002')
    await proxy.edge.publish(blocking({ cut_streams: true }))
    expect((await client.untilClosed()).data.at(-1)).toBe('[DONE]')
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
  })

  test.each([
    ['counted in shadow', { mode: 'shadow' as const }],
    ['not read', { streaming: { enabled: false } }],
  ])('breaks off one that is %s after a whole chunk, adding nothing', async (_, options) => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write(WORDS)
    })
    const proxy = await llmProxy(backend, options)
    const client = await proxy.open(CHAT, ASKED, ACME).untilText('w002')
    await proxy.edge.publish(blocking({ cut_streams: true }))
    await client.untilClosed()
    expect([client.outcome, client.text]).toEqual(['whole', WORDS])
    await until(() => backend.calls[0]!.isAborted)
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
  })

  test('ends one that was decided before and begins after', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED, ACME)
    const call = await backend.next()
    await proxy.edge.publish(blocking({ cut_streams: true }))
    call.begin()
    await call.write(WORDS + WORDS)
    await client.untilClosed()
    expect([client.outcome, client.text.includes('w001'), client.data.at(-1)]).toEqual(['whole', false, '[DONE]'])
    await until(() => call.isAborted)
    expect(await proxy.settlements()).toEqual({ truncated: 1 })
    expect(proxy.edge.logged('internal_error')).toEqual([])
  })

  test('knows the model that the body named', async () => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write(WORDS)
    })
    const proxy = await llmProxy(backend)
    const [cut, other] = ['gpt-3.5', 'gpt-5'].map((model) => proxy.open(CHAT, { ...ASKED, model }))
    await Promise.all([cut!.untilText('w002'), other!.untilText('w002')])
    const block = blockRule('old', { 'llm:model': 'gpt-3*' }, { cut_streams: true })
    await proxy.edge.publish(bundle(2, policy('llm', { rules: [llmRule('budget', [], BUDGET), block] })))
    expect((await cut!.untilClosed()).data.at(-1)).toBe('[DONE]')
    expect(other!.outcome).toBe('open')
    other!.abort()
  })

  test('knows no model where the body was not read: neither a rule that matches by it nor an else covers the stream', async () => {
    const backend = await scriptedLlm(async (call) => {
      call.begin()
      await call.write(WORDS)
    })
    const proxy = await llmProxy(backend)
    await proxy.edge.publish(bundle(2, policy('all', { rules: [bucketRule('all', [], 9)] })))
    const stream = proxy.open(CHAT, { ...ASKED, model: 'gpt-5' })
    await stream.untilText('w002')
    const rules = [unlimitedRule('new', { 'llm:model': 'gpt-5*' }), blockRule('others', 'else', { cut_streams: true })]
    const marked = policy('marked', { rules: [blockRule('marked', MATCH, { cut_streams: true })] })
    const other = proxy.open(CHAT, ASKED, ACME)
    await other.untilText('w002')
    await proxy.edge.publish(bundle(3, policy('models', { rules }), marked))
    await other.untilClosed()
    expect(stream.outcome).toBe('open')
    stream.abort()
  })

  test('leaves responses that are no streams, and streams that have sent their end, as they are', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const whole = proxy.post(CHAT, { messages: HELLO }, ACME)
    const call = await backend.next()
    const stream = proxy.open(CHAT, ASKED, ACME)
    const ended = await backend.next()
    ended.begin()
    await ended.write(`${WORDS}data: [DONE]\n\n`)
    await stream.untilText('[DONE]')
    await proxy.edge.publish(blocking({ cut_streams: true }))
    await stream.untilClosed()
    call.answer(200, { usage: { prompt_tokens: 3, completion_tokens: 4 } })
    expect((await whole).status).toBe(200)
    expect(stream.text.match(/\[DONE\]/g)).toHaveLength(1)
    expect(await proxy.settlements()).toEqual({ done: 2 })
  })

  test('cuts nothing where cut_streams is not set, its policy is in shadow, or it has expired', async () => {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const client = proxy.open(CHAT, ASKED, ACME)
    const call = await backend.next()
    call.begin()
    await call.write(WORDS)
    await client.untilText('w002')
    await proxy.edge.publish(blocking({}, 'enforce', 2))
    await proxy.edge.publish(blocking({ cut_streams: true }, 'shadow', 3))
    await proxy.edge.publish(blocking({ cut_streams: true, expires_at: '2026-01-15T11:00:00Z' }, 'enforce', 4))
    // What is published later is looked at later: those before have cut nothing.
    await proxy.edge.publish(blocking({}, 'shadow', 5))
    expect(await untilLogged(proxy.edge, 'bundle_applied', 5)).toHaveLength(5)
    call.end(`${sse({ choices: [] })}data: [DONE]\n\n`)
    expect((await client.untilClosed()).text).toMatch(/"choices":\[\].*\[DONE\]\n\n$/s)
    expect(proxy.edge.logged('streams_cut')).toEqual([])
  })
})

function blocking(config: object, mode = 'enforce', version = 2): object {
  return bundle(
    version,
    policy('llm', { rules: [llmRule('budget', [], BUDGET)] }),
    policy('incident', { mode, rules: [blockRule('acme', MATCH, config)] }),
  )
}

/** The events before the first one of this type. */
function cutBefore(stream: string, type: string): string {
  const events = stream.split(/(?<=\n\n)/)
  return events
    .slice(
      0,
      events.findIndex((event) => event.includes(`"type":"${type}"`)),
    )
    .join('')
}
