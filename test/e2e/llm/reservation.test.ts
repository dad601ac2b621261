import { request } from 'node:http'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import {
  both,
  CHAT,
  COMPLETIONS,
  EMBEDDINGS,
  HELLO,
  HELLO_TOKENS,
  llmProxy,
  MESSAGES,
  proxyEnv,
  RESPONSES,
} from '../../support/llm/llm-proxy.ts'
import { sse } from '../../support/llm/llm-streams.ts'
import { MAX_COMPLETION, reserving } from '../../support/llm/reserving.ts'
import { answeringLlm, scriptedLlm, streamingLlm } from '../../support/llm/scripted-llm.ts'
import { type Answer, ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running } from '../../support/service/running.ts'

const reservedFor = reserving()

describe('the prompt is ceil(characters / 4) over all its text', () => {
  test.for([
    ['chat', CHAT, { messages: HELLO }, 3],
    ['completions', COMPLETIONS, { prompt: 'hello there' }, 3],
    ['Responses', RESPONSES, { input: 'hello there!', instructions: 'be nice!' }, 5],
    ['Anthropic', MESSAGES, { system: 'be nice!', messages: HELLO }, 5],
  ] as const)('%s', async ([, path, body, tokens]) => {
    expect(await reservedFor(path, body)).toBe(tokens + MAX_COMPLETION)
  })

  test('embeddings reserve their prompt and no completion', async () => {
    expect(await reservedFor(EMBEDDINGS, { input: 'hello there!' })).toBe(3)
    expect(await reservedFor(EMBEDDINGS, { input: ['hello', 'there!!'], max_tokens: 50 })).toBe(3)
    expect(await reservedFor(`${EMBEDDINGS}?x=1`, { input: [[1, 2], [3]] })).toBe(3)
  })

  test('a compressed body is read, and reaches the backend as it came', async () => {
    const bytes = gzipSync(JSON.stringify({ messages: HELLO, max_tokens: 7 }))
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend)
    const req = request({ port: proxy.port, method: 'POST', path: CHAT, headers: { 'Content-Encoding': 'gzip' }, agent: false })
    req.end(bytes)
    const call = await backend.next()
    expect(await proxy.held()).toEqual(both(HELLO_TOKENS + 7))
    expect([call.req.headers['content-encoding'], call.req.headers['content-length']]).toEqual(['gzip', String(bytes.length)])
    const closed = new Promise((resolve) => {
      req.on('response', (res) => res.resume().on('end', resolve))
    })
    call.answer(500, {})
    await closed
    expect(await proxy.spent()).toEqual(both(0))
  })
})

describe('an upload', () => {
  /** What is held while the backend works on it. */
  async function heldFor(body: FormData | string, headers: Readonly<Record<string, string>> = {}): Promise<number> {
    const backend = await scriptedLlm()
    const proxy = await llmProxy(backend, { config: { max_completion_tokens: MAX_COMPLETION } })
    const answer = fetch(`http://127.0.0.1:${proxy.port}/v1/audio/transcriptions`, { method: 'POST', body, headers })
    const call = await backend.next()
    const { minute } = await proxy.held()
    call.answer(200, { text: 'hello', usage: { input_tokens: 1400, output_tokens: 45, total_tokens: 1445 } })
    expect((await answer).status).toBe(200)
    expect(await proxy.spent()).toEqual(both(1445))
    return minute
  }

  test('reserves no prompt for the bytes of its files', async () => {
    const form = new FormData()
    form.set('model', 'whisper-1')
    form.set('file', new Blob([Buffer.alloc(200 * 1024, 'RIFF')]), 'speech.wav')
    expect(await heldFor(form)).toBeLessThan(MAX_COMPLETION + 100)
    form.set('prompt', 'x'.repeat(4000))
    expect(await heldFor(form)).toBeGreaterThan(MAX_COMPLETION + 1000)
  })

  test('whose transcript is streamed costs what the last event says', async () => {
    const usage = { type: 'tokens', input_tokens: 1400, output_tokens: 45, total_tokens: 1445 }
    const events = sse({ type: 'transcript.text.delta', delta: 'hello' }) + sse({ type: 'transcript.text.done', text: 'hello', usage })
    const proxy = await llmProxy(await streamingLlm(events))
    const form = new FormData()
    form.set('stream', 'true')
    form.set('file', new Blob(['RIFF']), 'speech.wav')
    const answer = await fetch(`http://127.0.0.1:${proxy.port}/v1/audio/transcriptions`, { method: 'POST', body: form })
    expect(await answer.text()).toBe(events)
    expect(await proxy.spent()).toEqual(both(1445))
  })

  test('is not what its label says alone', async () => {
    const headers = { 'Content-Type': 'multipart/form-data; boundary=x' }
    expect(await heldFor(JSON.stringify({ messages: [{ content: 'x'.repeat(4000) }] }), headers)).toBe(MAX_COMPLETION + 1000)
    expect(await heldFor('x'.repeat(4000), headers)).toBe(MAX_COMPLETION + 1000)
  })
})

describe('the completion is the smaller of what is asked and what is configured', () => {
  test.for([
    ['asked for less', { max_tokens: 7 }, MAX_COMPLETION, 7],
    ['asked for more', { max_tokens: 700 }, MAX_COMPLETION, 100],
    ['neither', {}, undefined, 1000],
    ['times n', { max_tokens: 7, n: 3 }, MAX_COMPLETION, 21],
    ['where another server looks for it', { max_tokens: 1, sampling_params: { max_new_tokens: 70 } }, MAX_COMPLETION, 70],
    ['where it replaces the other', { max_tokens: 1, extra_body: { max_tokens: 70 } }, MAX_COMPLETION, 70],
    ['what another API would have asked', { n_predict: 1, max_output_tokens: 1 }, undefined, 1000],
    ['more than that in another API', { n_predict: 3000, n: 2 }, undefined, 6000],
    ['more than that in another API than is configured', { n_predict: 3000 }, MAX_COMPLETION, 100],
    ['times another name of n', { max_tokens: 7, n: 1, n_cmpl: 3 }, MAX_COMPLETION, 21],
  ] as const)('%s', async ([, asked, configured, tokens]) => {
    expect(await reservedFor(CHAT, { messages: HELLO, ...asked }, configured !== undefined)).toBe(HELLO_TOKENS + tokens)
  })
})

test('a stream whose reservation grows does not end at a bound of another API', async () => {
  const backend = await scriptedLlm()
  const proxy = await llmProxy(backend, { config: { reserve: { first: 100, step: 100 } } })
  const client = proxy.open(CHAT, { stream: true, messages: HELLO, n_predict: 10 })
  const call = await backend.next()
  expect((await proxy.held()).day).toBe(HELLO_TOKENS + 100)
  call.begin()
  await call.write(sse({ choices: [{ delta: { content: 'abcd'.repeat(150) } }] }))
  call.end(sse({ choices: [{ delta: {}, finish_reason: 'stop' }] }))
  await client.untilClosed()
  expect(await proxy.spent()).toEqual(both(HELLO_TOKENS + 150))
})

test('each prompt of a list can have the longest completion', async () => {
  expect(await reservedFor(COMPLETIONS, { prompt: ['hell', 'o th', 'ere!'], max_tokens: 7 })).toBe(HELLO_TOKENS + 21)
  expect(await reservedFor(COMPLETIONS, { prompt: [[1], [2], [3]] }, false)).toBe(3 + 3000)
})

describe('two budgets', () => {
  const asked = (max_tokens: number) => ({ messages: [], max_tokens })
  const reasonOf = ({ status, headers }: Answer) => [status, headers['x-edge-reason'], headers['ratelimit-limit'], headers['retry-after']]

  async function budgets(config: object) {
    const backend = await answeringLlm(200, { usage: { prompt_tokens: 0, completion_tokens: 600, total_tokens: 600 } })
    const clock = new ManualClock()
    const rules = [llmRule('budget', [], config)]
    const edge = await running({ clock, bundle: bundle(1, policy('llm', { rules })), env: proxyEnv(backend) })
    const spend = (tokens: number) => ask(edge.port, 'POST', CHAT, [], JSON.stringify(asked(tokens)))
    return { backend, clock, spend }
  }

  test('the minute refills continuously, up to its burst', async () => {
    const { clock, spend } = await budgets({ tokens_per_minute: 600, burst_tokens: 1200 })
    expect((await spend(600)).headers['ratelimit-remaining']).toBe('600')
    expect((await spend(600)).headers['ratelimit-remaining']).toBe('0')
    expect(reasonOf(await spend(600))).toEqual([429, 'tpm_exceeded', '1200', '60'])
    clock.advance(30_000)
    expect(reasonOf(await spend(600))).toEqual([429, 'tpm_exceeded', '1200', '30'])
    clock.advance(30_000)
    expect((await spend(600)).status).toBe(200)
    clock.advance(3_600_000)
    expect((await spend(1200)).headers['ratelimit-remaining']).toBe('0')
  })

  test('the day is a window that ends at midnight UTC', async () => {
    const { clock, spend } = await budgets({ tokens_per_day: 1000 })
    expect((await spend(600)).status).toBe(200)
    expect(reasonOf(await spend(600))).toEqual([429, 'tpd_exceeded', '1000', String(12 * 3600)])
    clock.advance(12 * 3_600_000 - 1)
    expect(reasonOf(await spend(600))).toEqual([429, 'tpd_exceeded', '1000', '1'])
    clock.advance(1)
    expect((await spend(600)).status).toBe(200)
  })

  test('both or neither are taken, and where the minute cannot cover a request that is the reason', async () => {
    const { clock, spend } = await budgets({ tokens_per_minute: 600, tokens_per_day: 1000 })
    expect((await spend(600)).status).toBe(200)
    // Neither can cover it: the minute names the reason, the day the wait.
    expect(reasonOf(await spend(600))).toEqual([429, 'tpm_exceeded', '600', String(12 * 3600)])
    clock.advance(60_000)
    expect(reasonOf(await spend(600))).toEqual([429, 'tpd_exceeded', '1000', String(12 * 3600 - 60)])
    // What the day refused took nothing from the minute, and the other way round.
    clock.advance(12 * 3_600_000 - 60_000)
    expect((await spend(600)).status).toBe(200)
  })
})

describe('before anything reaches the backend', () => {
  test('a body beyond EDGE_MAX_BODY_BYTES is 413 and takes nothing, whether or not its length is told', async () => {
    const backend = await answeringLlm(200, {})
    const proxy = await llmProxy(backend, { env: { EDGE_MAX_BODY_BYTES: '100k' } })
    const large = JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(100 * 1024) }] })
    const told = await proxy.post(CHAT, large)
    const untold = await ask(proxy.port, 'POST', CHAT, [['Transfer-Encoding', 'chunked']], undefined)
    expect([told.status, told.headers['x-edge-reason']]).toEqual([413, 'body_too_large'])
    expect(untold.status).toBe(200)
    const status = await new Promise((resolve) => {
      const req = request({ port: proxy.port, method: 'POST', path: CHAT, agent: false }, (res) => {
        res.resume()
        resolve(res.statusCode)
      })
      req.on('error', () => {})
      req.write(large)
      req.end()
    })
    expect(status).toBe(413)
    expect(await proxy.spent()).toEqual(both(0))
    expect(backend.calls.length).toBe(1)
  })

  test('a reject by a plain rule takes no token, and the other way round', async () => {
    const plain = policy('plain', { selector: { pathPrefix: '/v1/chat' }, rules: [bucketRule('calls', [], 1, 1e-6)] })
    const proxy = await llmProxy(await answeringLlm(200, { usage: { total_tokens: 50 } }), { policies: [plain] })
    const tooMuch = await proxy.post(CHAT, { messages: HELLO, max_tokens: 50_000 })
    expect([tooMuch.status, tooMuch.headers['x-edge-reason']]).toEqual([429, 'tpm_exceeded'])
    expect((await proxy.post(CHAT, { messages: HELLO })).status).toBe(200)
    const second = await proxy.post(CHAT, { messages: HELLO })
    expect([second.status, second.headers['x-edge-reason']]).toEqual([429, 'token_bucket_exceeded'])
    expect(await proxy.spent()).toEqual(both(50))
  })
})
