import { expect, test } from 'vitest'
import { CHAT, fake, flagged, HELLO, HELLO_TOKENS, open, post, send, stream } from '../../support/llm/fake-llm-client.ts'
import { command } from '../../support/service/command.ts'
import { until } from '../../support/until.ts'

interface Usage {
  readonly requests: number
  readonly responses: number
  readonly failures: Readonly<Record<string, number>>
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly models: Readonly<
    Record<string, { readonly requests: number; readonly prompt_tokens: number; readonly completion_tokens: number }>
  >
}

async function usageOf(port: number): Promise<Usage> {
  return (await fetch(`http://127.0.0.1:${port}/fake/usage`)).json() as Promise<Usage>
}

/** The statuses of so many requests, one after the other; 'reset' where there was none. */
async function outcomes(port: number, times: number): Promise<unknown[]> {
  const found: unknown[] = []
  for (let i = 0; i < times; i++) {
    const response = await send(port, CHAT, { messages: HELLO }).catch(() => undefined)
    found.push(response?.status ?? 'reset')
    await response?.text()
  }
  return found
}

test('a share of the requests fails, the same with the same seed', async () => {
  const args = ['--fail', '429:0.3', '--fail', '503:0.1', '--fail', 'reset:0.2', '--seed', '5']
  const [one, other] = [await flagged(args), await flagged(args)]
  const found = await outcomes(one.port, 60)
  expect(await outcomes(other.port, 60)).toEqual(found)
  const count = (outcome: unknown): number => found.filter((each) => each === outcome).length
  expect(new Set(found)).toEqual(new Set([200, 429, 503, 'reset']))
  expect(await usageOf(one.port)).toMatchObject({
    requests: 60,
    responses: count(200),
    failures: { 429: count(429), 503: count(503), reset: count('reset') },
    completion_tokens: 64 * count(200),
  })
})

test('--retry-after is sent with 429 and 503, in the words of each API', async () => {
  const { port } = await flagged(['--fail', '429', '--retry-after', '3'])
  const chat = await send(port, CHAT, { messages: HELLO })
  expect([chat.status, chat.headers.get('retry-after'), await chat.json()]).toMatchObject([
    429,
    '3',
    { error: { type: 'rate_limit_error' } },
  ])
  const messages = await send(port, '/v1/messages', { messages: HELLO })
  expect([messages.status, await messages.json()]).toMatchObject([429, { type: 'error', error: { type: 'rate_limit_error' } }])
  const gemini = await send(port, '/v1beta/models/m:generateContent', { contents: [] })
  expect([gemini.status, await gemini.json()]).toMatchObject([429, { error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }])
  const overloaded = await flagged(['--fail', '503', '--retry-after', '0'])
  expect((await send(overloaded.port, CHAT, {})).headers.get('retry-after')).toBe('0')
  const broken = await flagged(['--fail', '502', '--retry-after', '3'])
  const response = await send(broken.port, CHAT, {})
  expect([response.status, response.headers.get('retry-after')]).toEqual([502, null])
})

test('hang never responds, whatever --fail-after says', async () => {
  const llm = await flagged(['--fail', 'hang', '--fail-after', '5'])
  const aborting = new AbortController()
  const sent = send(llm.port, CHAT, { messages: HELLO, stream: true }, aborting.signal)
  await until(async () => (await usageOf(llm.port)).failures['hang'] === 1)
  aborting.abort()
  await expect(sent).rejects.toThrow()
  await until(() => llm.requests[0]!.isClosed)
  expect(llm.requests[0]!.isAborted).toBe(true)
  expect(await usageOf(llm.port)).toMatchObject({ responses: 0, prompt_tokens: 0 })
})

test('what was served is counted by model, whole or streamed, of every API', async () => {
  const { port } = await fake({ tokens: 5 })
  await post(port, CHAT, { model: 'a', messages: HELLO, n: 2 })
  await stream(port, CHAT, { model: 'a', messages: HELLO })
  await stream(port, '/v1/messages', { model: 'b', messages: HELLO, max_tokens: 2 })
  await post(port, '/v1/responses', { model: 'c', input: 'hello there' })
  await post(port, '/v1beta/models/d:generateContent', { contents: [{ parts: [{ text: 'hello there' }] }] })
  await post(port, '/v1/embeddings', { model: 'e', input: 'hello there' })
  await post(port, '/v1beta/models/f:batchEmbedContents', { requests: [{ content: { parts: [{ text: 'hello there' }] } }] })
  await post(port, '/openai/deployments/g/completions', { prompt: 'hello there' })
  await post(port, '/v1/messages/count_tokens', { model: 'h', messages: HELLO })
  const one = (completion_tokens: number): object => ({ requests: 1, prompt_tokens: HELLO_TOKENS, completion_tokens })
  expect(await usageOf(port)).toEqual({
    requests: 9,
    responses: 9,
    failures: {},
    prompt_tokens: 8 * HELLO_TOKENS,
    completion_tokens: 15 + 2 + 5 + 5 + 5,
    models: {
      a: { requests: 2, prompt_tokens: 2 * HELLO_TOKENS, completion_tokens: 15 },
      b: one(2),
      c: one(5),
      d: one(5),
      e: one(0),
      f: one(0),
      g: one(5),
      h: { requests: 1, prompt_tokens: 0, completion_tokens: 0 },
    },
  })
})

test('of a stream that fails or is left, what was sent is counted', async () => {
  const failing = await fake({ tokens: 9, fail: 'error-event', failAfterTokens: 3 })
  await stream(failing.port, CHAT, { model: 'm', messages: HELLO })
  expect(await usageOf(failing.port)).toMatchObject({ failures: { 'error-event': 1 }, completion_tokens: 3, prompt_tokens: HELLO_TOKENS })
  const stalling = await fake({ tokens: 9, fail: 'stall', failAfterTokens: 2 })
  const { leave } = await open(stalling.port, CHAT, { messages: HELLO, stream: true })
  await until(async () => (await usageOf(stalling.port)).failures['stall'] === 1)
  leave()
  expect(await usageOf(stalling.port)).toMatchObject({ completion_tokens: 2, prompt_tokens: HELLO_TOKENS })
  const resetting = await fake({ tokens: 9, fail: 'reset' })
  await expect(send(resetting.port, CHAT, { messages: HELLO })).rejects.toThrow()
  expect(await usageOf(resetting.port)).toMatchObject({ failures: { reset: 1 }, responses: 0, prompt_tokens: 0, completion_tokens: 0 })
})

test('bad faults are refused with examples', async () => {
  const { status, stderr } = await command('fake-llm', '--fail', '429:0.8', '--fail', '503:0.3', '--seed', 'x', '--retry-after', '1.5')
  expect(status).toBe(1)
  expect(stderr).toMatch(/ {2}--fail: expected failures such as reset, 429:0\.2 or hang:0\.05, .*, got "429:0\.8,503:0\.3"\n/)
  expect(stderr).toMatch(/--retry-after: expected a whole number from 0 to 86400, got "1\.5"\n {2}--seed: expected a whole number/)
})
