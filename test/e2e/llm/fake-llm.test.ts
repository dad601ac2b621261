import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect, createServer } from 'node:net'
import { parseArgs, promisify } from 'node:util'
import { describe, expect, onTestFinished, type TestContext, test } from 'vitest'
import { flagTypes, readFlags } from '../../../src/fake-llm/flags.ts'
import { DEFAULT_OPTIONS } from '../../../src/fake-llm/options.ts'
import { type FakeLlm, type StartOptions, startFakeLlm } from '../../../src/fake-llm/server.ts'
import { RunningTime } from '../../support/running-time.ts'
import { Cli } from '../../support/service/cli.ts'
import { command } from '../../support/service/command.ts'
import { ask, exchange } from '../../support/service/http.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

const HELLO = [{ role: 'user', content: 'hello there' }]
const HELLO_TOKENS = 3

const CHAT = '/v1/chat/completions'
const STREAMS = [
  [CHAT, { messages: HELLO }],
  ['/v1/completions', { prompt: 'hello there' }],
  ['/v1/responses', { input: 'hello there' }],
  ['/v1/messages', { messages: HELLO }],
] as const

describe('chat completions', () => {
  test('in one piece', async () => {
    const { port } = await fake({ tokens: 2 })
    expect(await post(port, CHAT, { model: 'm', messages: HELLO })).toMatchObject({
      id: expect.any(String),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'the old ', refusal: null }, logprobs: null, finish_reason: 'stop' }],
      usage: { prompt_tokens: HELLO_TOKENS, completion_tokens: 2, total_tokens: HELLO_TOKENS + 2 },
    })
  })

  test('as a stream without usage', async () => {
    const { port } = await fake({ tokens: 2 })
    const chunk = (delta: object, finish_reason: string | null = null): object => ({
      id: 'chatcmpl-fake',
      object: 'chat.completion.chunk',
      created: expect.any(Number),
      model: 'm',
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    })
    expect(dataOf(await stream(port, CHAT, { model: 'm', messages: HELLO }))).toEqual([
      chunk({ role: 'assistant', content: '', refusal: null }),
      chunk({ content: 'the ' }),
      chunk({ content: 'old ' }),
      chunk({}, 'stop'),
      '[DONE]',
    ])
  })

  test('as a stream with usage', async () => {
    const { port } = await fake({ tokens: 2 })
    const data = dataOf(await stream(port, CHAT, { messages: HELLO, stream_options: { include_usage: true } }))
    const usage = { prompt_tokens: HELLO_TOKENS, completion_tokens: 2, total_tokens: HELLO_TOKENS + 2 }
    expect(data.slice(0, -2).map((chunk) => (chunk as { usage: unknown }).usage)).toEqual([null, null, null, null])
    expect(data.slice(-2)).toEqual([expect.objectContaining({ choices: [], usage: expect.objectContaining(usage) }), '[DONE]'])
  })

  test('several choices differ, take turns, and count together', async () => {
    const { port } = await fake({ tokens: 2 })
    const asked = { messages: HELLO, n: 2, stream_options: { include_usage: true } }
    const whole = await post(port, CHAT, asked)
    expect(whole.choices.map(({ index, message }) => [index, message.content])).toEqual([
      [0, 'the old '],
      [1, 'old fox '],
    ])
    expect(whole.usage['completion_tokens']).toBe(4)
    const chunks = dataOf(await stream(port, CHAT, asked)).slice(0, -1) as Chat[]
    const said = chunks.flatMap(({ choices }) => choices).filter(({ delta }) => delta.content)
    expect(said.map(({ index, delta }) => [index, delta.content])).toEqual([
      [0, 'the '],
      [1, 'old '],
      [0, 'old '],
      [1, 'fox '],
    ])
    expect(chunks.at(-1)!.usage['completion_tokens']).toBe(4)
  })

  test.each([
    ['max_tokens', { max_tokens: 2 }],
    ['max_completion_tokens', { max_completion_tokens: 2 }],
    ['both: the newer one', { max_tokens: 1, max_completion_tokens: 2 }],
  ])('the request says how long: %s', async (_name, limit) => {
    const { port } = await fake({ tokens: 3 })
    const whole = await post(port, CHAT, { messages: HELLO, ...limit })
    expect(whole.choices[0]).toMatchObject({ message: { content: 'the old ' }, finish_reason: 'length' })
    const chunks = dataOf(await stream(port, CHAT, { messages: HELLO, ...limit })) as Chat[]
    expect(chunks.at(-2)!.choices[0]).toMatchObject({ delta: {}, finish_reason: 'length' })
  })

  test.each([3, 4, 'many', null, -1])('a max_tokens of %j cuts nothing', async (max_tokens) => {
    const { port } = await fake({ tokens: 3 })
    const { choices } = await post(port, CHAT, { messages: HELLO, max_tokens })
    expect(choices[0]).toMatchObject({ message: { content: 'the old fox ' }, finish_reason: 'stop' })
  })
})

describe('completions', () => {
  test('in one piece, and one answer for each prompt', async () => {
    const { port } = await fake({ tokens: 2 })
    const body = await post(port, '/v1/completions', { model: 'm', prompt: ['1234', '5678'], max_tokens: 1 })
    expect(body).toMatchObject({
      object: 'text_completion',
      choices: [
        { index: 0, text: 'the ', logprobs: null, finish_reason: 'length' },
        { index: 1, text: 'old ', logprobs: null, finish_reason: 'length' },
      ],
      usage: { prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 },
    })
  })

  test('as a stream', async () => {
    const { port } = await fake({ tokens: 2 })
    const data = dataOf(await stream(port, '/v1/completions', { prompt: 'hi', stream_options: { include_usage: true } }))
    const choice = (text: string, finish_reason: string | null = null): object => ({ index: 0, text, logprobs: null, finish_reason })
    expect(data).toMatchObject([
      { object: 'text_completion', choices: [choice('the ')], usage: null },
      { choices: [choice('old ')], usage: null },
      { choices: [choice('', 'stop')], usage: null },
      { choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } },
      '[DONE]',
    ])
  })
})

describe('embeddings', () => {
  test('one vector of length 1 for each text, always the same', async () => {
    const { port } = await fake()
    const body = await post<Embeddings>(port, '/v1/embeddings', { model: 'm', input: ['one', 'two', 'one'] })
    expect(body).toMatchObject({ object: 'list', model: 'm', usage: { prompt_tokens: 3, total_tokens: 3 } })
    expect(body.data.map(({ object, index }) => [object, index])).toEqual([0, 1, 2].map((index) => ['embedding', index]))
    const [one, two, again] = body.data.map(({ embedding }) => embedding as number[])
    expect(again).toEqual(one)
    expect(two).not.toEqual(one)
    expect(Math.hypot(...one!)).toBeCloseTo(1)
  })

  test('as many dimensions as are asked for, in base64 too', async () => {
    const { port } = await fake()
    const asked = { input: 'one', dimensions: 5 }
    const [plain] = (await post<Embeddings>(port, '/v1/embeddings', asked)).data
    const [packed] = (await post<Embeddings>(port, '/v1/embeddings', { ...asked, encoding_format: 'base64' })).data
    const bytes = Buffer.from(packed!.embedding as string, 'base64')
    expect(Array.from({ length: 5 }, (_, i) => bytes.readFloatLE(i * 4))).toEqual(plain!.embedding)
  })
})

describe('responses', () => {
  const text = (value: string): object => ({ type: 'output_text', text: value, annotations: [], logprobs: [] })

  test('in one piece', async () => {
    const { port } = await fake({ tokens: 2 })
    expect(await post(port, '/v1/responses', { model: 'm', instructions: 'be kind', input: 'hello there' })).toMatchObject({
      object: 'response',
      status: 'completed',
      error: null,
      incomplete_details: null,
      instructions: 'be kind',
      model: 'm',
      output: [{ type: 'message', role: 'assistant', status: 'completed', content: [text('the old ')] }],
      usage: { input_tokens: 5, output_tokens: 2, total_tokens: 7 },
    })
  })

  test('as a stream whose events are named and numbered', async () => {
    const { port } = await fake({ tokens: 2 })
    const events = await stream(port, '/v1/responses', { input: 'hello there' })
    const data = dataOf(events) as { type: string; sequence_number: number }[]
    expect(events.map(({ name }) => name)).toEqual(data.map(({ type }) => type))
    expect(data.map(({ sequence_number }) => sequence_number)).toEqual([...data.keys()])
    expect(data).toMatchObject([
      { type: 'response.created', response: { status: 'in_progress', output: [] } },
      { type: 'response.in_progress' },
      { type: 'response.output_item.added', output_index: 0, item: { status: 'in_progress', content: [] } },
      { type: 'response.content_part.added', content_index: 0, part: text('') },
      { type: 'response.output_text.delta', delta: 'the ' },
      { type: 'response.output_text.delta', delta: 'old ' },
      { type: 'response.output_text.done', text: 'the old ' },
      { type: 'response.content_part.done', part: text('the old ') },
      { type: 'response.output_item.done', item: { status: 'completed', content: [text('the old ')] } },
      { type: 'response.completed', response: { status: 'completed', usage: { input_tokens: HELLO_TOKENS, output_tokens: 2 } } },
    ])
  })

  test('cut by the request', async () => {
    const { port } = await fake({ tokens: 2 })
    const asked = { input: 'hello there', max_output_tokens: 1 }
    const cut = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, usage: { output_tokens: 1 } }
    expect(await post(port, '/v1/responses', asked)).toMatchObject(cut)
    expect(dataOf(await stream(port, '/v1/responses', asked)).at(-1)).toMatchObject({ type: 'response.incomplete', response: cut })
  })
})

describe('messages', () => {
  test('in one piece', async () => {
    const { port } = await fake({ tokens: 2 })
    expect(await post(port, '/v1/messages', { model: 'm', system: 'be kind', messages: HELLO, max_tokens: 9 })).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [{ type: 'text', text: 'the old ' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 5, output_tokens: 2 },
    })
  })

  test('as a stream whose events are named and whose usage grows', async () => {
    const { port } = await fake({ tokens: 3 })
    const events = await stream(port, '/v1/messages', { messages: HELLO, max_tokens: 2 })
    const data = dataOf(events) as { type: string }[]
    expect(events.map(({ name }) => name)).toEqual(data.map(({ type }) => type))
    expect(data).toMatchObject([
      { type: 'message_start', message: { content: [], stop_reason: null, usage: { input_tokens: HELLO_TOKENS, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'ping' },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'the ' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'old ' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: { input_tokens: HELLO_TOKENS, output_tokens: 2 } },
      { type: 'message_stop' },
    ])
  })
})

describe('what it does not answer', () => {
  test.each([
    ['GET', CHAT],
    ['POST', '/v1/models'],
    ['POST', '/v1/chat/completions/'],
    ['DELETE', '/'],
  ])('%s %s: 404', async (method, path) => {
    const { port } = await fake()
    const { status, body } = await ask(port, method, path)
    expect({ status, body: JSON.parse(body) }).toMatchObject({ status: 404, body: { error: { type: 'invalid_request_error' } } })
  })

  test.each(STREAMS)('%s: a body that is no JSON object gets 400', async (path) => {
    const { port } = await fake()
    for (const bad of ['', '{', '[]', '"text"', 'null']) {
      const { status, body } = await ask(port, 'POST', path, [], bad)
      expect({ status, body: JSON.parse(body) }).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error' } } })
    }
  })

  test('GET /v1/models has one', async () => {
    const { port } = await fake()
    const { status, body } = await ask(port, 'GET', '/v1/models?limit=1')
    expect({ status, body: JSON.parse(body) }).toMatchObject({ status: 200, body: { object: 'list', data: [{ object: 'model' }] } })
  })
})

describe.each(STREAMS)('%s', (path, asked) => {
  test('the same request gets the same bytes', async () => {
    const { port } = await fake({ isGzip: true })
    for (const isStream of [true, false]) {
      const texts = [1, 2].map(async () => (await send(port, path, { ...asked, stream: isStream })).text())
      expect(await texts[0]).toBe(await texts[1])
    }
  })

  test('no usage anywhere when there is to be none', async () => {
    const { port } = await fake({ hasUsage: false })
    for (const isStream of [true, false]) {
      const response = await send(port, path, { ...asked, stream: isStream, stream_options: { include_usage: true } })
      expect(await response.text()).not.toContain('usage')
    }
  })

  test.each([{ chunkBytes: 3 }, { chunkBytes: 7, isGzip: true }, { isGzip: true }])(
    '%j changes the bytes, not the events',
    async (changes) => {
      const llm = await fake({ tokens: 3 })
      const [plain, plainWhole] = [await stream(llm.port, path, asked), await post(llm.port, path, asked)]
      llm.options = { ...llm.options, ...changes }
      expect(await stream(llm.port, path, asked)).toEqual(plain)
      expect(await post(llm.port, path, asked)).toEqual(plainWhole)
    },
  )

  test('an error event is the last one', async () => {
    const llm = await fake({ tokens: 9 })
    const whole = await stream(llm.port, path, asked)
    llm.options.fail = 'error-event'
    llm.options.failAfterTokens = 2
    const events = await stream(llm.port, path, asked)
    const sent = whole.findIndex(({ data }) => JSON.stringify(data).includes('"old ')) + 1
    expect(events.slice(0, -1)).toEqual(whole.slice(0, sent))
    const { data } = events.at(-1)!
    if (path === '/v1/responses') expect(data).toMatchObject({ type: 'error', sequence_number: sent, message: expect.any(String) })
    else expect(data).toMatchObject({ error: { message: expect.any(String) } })
    if (path === '/v1/messages') expect(data).toMatchObject({ type: 'error' })
  })

  test.each([true, false])('a status of 500, as a stream: %s', async (isStream) => {
    const { port } = await fake({ fail: 'status', failAfterTokens: 2 })
    const response = await send(port, path, { ...asked, stream: isStream })
    expect(response.status).toBe(500)
    expect(await response.json()).toMatchObject({ error: { message: expect.any(String) } })
  })

  test.each([true, false])('a connection that breaks before the head or in the answer, as a stream: %s', async (isStream) => {
    const llm = await fake({ fail: 'reset' })
    await expect(send(llm.port, path, { ...asked, stream: isStream })).rejects.toThrow()
    llm.options.failAfterTokens = 2
    const response = await send(llm.port, path, { ...asked, stream: isStream })
    expect(response.status).toBe(200)
    await expect(response.text()).rejects.toThrow()
    await until(() => llm.requests.every(({ isClosed }) => isClosed))
    expect(llm.requests.map(({ isAborted }) => isAborted)).toEqual([false, false])
  })

  test.each([true, false])('bytes that are no chunk, as a stream: %s', async (isStream) => {
    for (const failAfterTokens of [0, 2]) {
      const { port } = await fake({ fail: 'garbage', failAfterTokens })
      const response = await send(port, path, { ...asked, stream: isStream })
      expect(response.status).toBe(200)
      await expect(response.text()).rejects.toThrow()
    }
  })
})

describe('failures', () => {
  test('a stall sends what comes before it, and stays until the client goes', async () => {
    const llm = await fake({ fail: 'stall', failAfterTokens: 2 })
    const client = await open(llm.port, CHAT, { messages: HELLO, stream: true })
    await until(() => client.text.includes('"old "'))
    expect(client.text).not.toContain('"fox "')
    expect(llm.requests[0]).toMatchObject({ isClosed: false, isAborted: false })
    client.leave()
    await until(() => llm.requests[0]!.isClosed)
    expect(llm.requests[0]!.isAborted).toBe(true)
  })

  test('a stall before the head', async () => {
    const llm = await fake({ fail: 'stall' })
    const aborted = new AbortController()
    const answer = send(llm.port, CHAT, { messages: HELLO }, aborted.signal)
    await until(() => llm.requests.some(({ body }) => body.length > 0))
    aborted.abort()
    await expect(answer).rejects.toThrow()
    await until(() => llm.requests[0]!.isAborted)
  })

  test('an answer with fewer tokens does not fail', async () => {
    const { port } = await fake({ tokens: 3, fail: 'reset', failAfterTokens: 4 })
    expect((await stream(port, CHAT, { messages: HELLO })).at(-1)!.data).toBe('[DONE]')
    expect((await post(port, CHAT, { messages: HELLO })).choices).toHaveLength(1)
  })

  test('an error event for which there is no stream is a status', async () => {
    const { port } = await fake({ fail: 'error-event', failAfterTokens: 2 })
    expect((await send(port, CHAT, { messages: HELLO })).status).toBe(500)
  })
})

describe('requests', () => {
  test('are kept as they came', async () => {
    const llm = await fake()
    const body = '{"messages": [ ]}'
    await ask(llm.port, 'POST', `${CHAT}?a=b`, [['X-Tag', 'one']], body)
    await until(() => llm.requests[0]!.isClosed)
    const [request] = llm.requests
    expect(request).toMatchObject({ method: 'POST', url: `${CHAT}?a=b`, isAborted: false })
    expect(request!.headers.slice(0, 2)).toEqual(['X-Tag', 'one'])
    expect(request!.body.toString()).toBe(body)
  })

  test('a request keeps the options it came with', async () => {
    const llm = await fake({ tokens: 4, delayMs: 50 })
    const first = post(llm.port, CHAT, { messages: HELLO })
    await until(() => llm.requests.length === 1)
    llm.options = { ...DEFAULT_OPTIONS, tokens: 1 }
    expect((await post(llm.port, CHAT, { messages: HELLO })).choices[0]!.message.content).toBe('the ')
    expect((await first).choices[0]!.message.content).toBe('the old fox saw ')
  })

  test('a client that leaves before its body is whole aborts too', async () => {
    const llm = await fake()
    const req = request({ port: llm.port, method: 'POST', path: CHAT, headers: { 'Content-Length': 100 }, agent: false })
    req.on('error', () => {})
    req.write('{')
    await until(() => llm.requests.length === 1)
    req.destroy()
    await until(() => llm.requests[0]!.isAborted)
  })

  test('a client that leaves ends the generation, and nothing is left behind', async () => {
    const program = `
      import { startFakeLlm } from './dist/fake-llm/server.js'
      for (const changes of [{ tokenMs: 600_000 }, { delayMs: 600_000 }, { fail: 'stall' }, { tokenMs: 1, isGzip: true, tokens: 100_000 }]) {
        const llm = await startFakeLlm(changes)
        const aborted = new AbortController()
        const body = '{"stream":true}'
        const answer = fetch('http://127.0.0.1:' + llm.port + '${CHAT}', { method: 'POST', body, signal: aborted.signal })
        while (llm.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
        aborted.abort()
        await answer.then((response) => response.text()).catch(() => {})
        while (!llm.requests[0]?.isClosed) await new Promise((resolve) => setTimeout(resolve, 10))
        console.log(llm.requests[0].isAborted)
        await llm.close()
      }`
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program])
    expect({ stdout, stderr }).toEqual({ stdout: 'true\n'.repeat(4), stderr: '' })
  })

  test('close ends what is open', async () => {
    const llm = await startFakeLlm({ fail: 'stall', failAfterTokens: 1 })
    const client = await open(llm.port, CHAT, { messages: HELLO, stream: true })
    await until(() => client.text.includes('"the "'))
    await llm.close()
    await client.closed
    expect(llm.requests[0]!.isClosed).toBe(true)
  })
})

describe.concurrent('edge fake-llm as a process', () => {
  test('says where it listens and what to try, and SIGTERM ends it with 0 though a body is still coming', async (t) => {
    const cli = await faking([], t)
    expect(cli.stdout).toContain(`listens http://127.0.0.1:${cli.port}\n`)
    expect(cli.stdout).toMatch(new RegExp(`curl .*http://127\\.0\\.0\\.1:${cli.port}${CHAT} `))
    const { choices } = await post(cli.port, CHAT, { messages: HELLO })
    expect(choices[0]!.message.content).toHaveLength(64 * 4)
    expect(choices[0]!.finish_reason).toBe('stop')
    const upload = connect(cli.port, '127.0.0.1', () => upload.write(`POST ${CHAT} HTTP/1.1\r\nHost: llm\r\nContent-Length: 9\r\n\r\n{`))
    upload.on('error', () => {})
    await once(upload, 'connect')
    expect(await cli.stop('SIGTERM')).toBe(0)
    expect(cli.stderr).toBe('')
  })

  test('listens where --host says, and SIGINT ends it with 0 though a stream is open', async (t) => {
    // With a port of its own: what the kernel lends for one address may be in use on another.
    const cli = await faking(['--host', '127.0.0.2', '--port', String(await serverPort()), '--fail', 'stall', '--fail-after', '1'], t)
    expect(cli.stdout).toContain(`listens http://127.0.0.2:${cli.port}\n`)
    await expect(fetch(`http://127.0.0.1:${cli.port}/v1/models`)).rejects.toThrow()
    const client = await open(cli.port, CHAT, { messages: HELLO, stream: true }, '127.0.0.2')
    await until(() => client.text.includes('"the "'))
    expect(await cli.stop('SIGINT')).toBe(0)
    expect(cli.stderr).toBe('')
  })
})

describe('edge fake-llm', () => {
  test('--help names every option and starts nothing', async () => {
    const { status, stdout, stderr } = await command('fake-llm', '--help')
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const names = ['port', 'host', 'tokens', 'delay-ms', 'token-ms', 'tokens-per-event', 'chunk-bytes', 'line-end', 'fail', 'fail-after']
    for (const name of [...names, 'no-usage', 'gzip']) expect(stdout).toMatch(new RegExp(`^  --${name} `, 'm'))
  })

  test('edge --help names it', async () => {
    expect((await command('--help')).stdout).toContain('edge fake-llm')
  })
})

describe('the options of edge fake-llm', () => {
  test('--tokens and --tokens-per-event', async () => {
    const { port } = await flagged(['--tokens', '5', '--tokens-per-event', '2'])
    const chunks = dataOf(await stream(port, CHAT, { messages: HELLO })).slice(0, -1) as Chat[]
    expect(chunks.map(({ choices }) => choices[0]!.delta.content).filter(Boolean)).toEqual(['the old ', 'fox saw ', 'the '])
  })

  test('--delay-ms', async () => {
    const { port } = await flagged(['--delay-ms', '200'])
    const time = new RunningTime(200)
    await send(port, CHAT, { messages: HELLO })
    expect(time.isUp).toBe(true)
  })

  test('--token-ms', async () => {
    const { port } = await flagged(['--tokens', '3', '--token-ms', '50'])
    // Three tokens, and before and behind them: what begins, what ends and [DONE]
    const time = new RunningTime(5 * 50)
    expect(await stream(port, CHAT, { messages: HELLO })).toHaveLength(6)
    expect(time.isUp).toBe(true)
  })

  test('a write for each event, or for each --chunk-bytes', async () => {
    const byEvent = await chunks((await flagged(['--tokens', '3'])).port)
    expect(byEvent.map((chunk) => chunk.endsWith('\n\n') && chunk.split('\n\n').length)).toEqual([2, 2, 2, 2, 2, 2])
    const bySize = await chunks((await flagged(['--tokens', '3', '--chunk-bytes', '10'])).port)
    expect(bySize.join('')).toBe(byEvent.join(''))
    const bytes = byEvent.flatMap((chunk) => [...Array<number>(Math.floor(chunk.length / 10)).fill(10), chunk.length % 10])
    expect(bySize.map(({ length }) => length)).toEqual(bytes.filter((length) => length > 0))
  })

  test('--no-usage', async () => {
    const { port } = await flagged(['--no-usage'])
    expect(await post(port, CHAT, { messages: HELLO })).not.toHaveProperty('usage')
  })

  test('--gzip', async () => {
    const { port } = await flagged(['--gzip', '--tokens', '1'])
    for (const isStream of [true, false]) {
      const response = await send(port, CHAT, { messages: HELLO, stream: isStream })
      expect(response.headers.get('content-encoding')).toBe('gzip')
      expect(await response.text()).toContain('"the "')
    }
  })

  test.for([
    ['lf', '\n'],
    ['crlf', '\r\n'],
    ['cr', '\r'],
  ] as const)('--line-end %s', async ([name, end]) => {
    const { port } = await flagged(['--line-end', name, '--tokens', '1'])
    const text = await (await send(port, '/v1/messages', { messages: HELLO, stream: true })).text()
    expect(text).toContain(`event: ping${end}data: {"type":"ping"}${end}${end}event: content_block_delta${end}`)
    expect(new Set(text.match(/[\r\n]+/g))).toEqual(new Set([end, end + end]))
  })

  test('--fail and --fail-after', async () => {
    const { port } = await flagged(['--fail', 'error-event', '--fail-after', '1'])
    const data = dataOf(await stream(port, CHAT, { messages: HELLO }))
    expect(data).toMatchObject([{}, { choices: [{ delta: { content: 'the ' } }] }, { error: {} }])
  })
})

describe('edge fake-llm with bad options', () => {
  const BAD = [
    ['--port', '65536'],
    ['--host', 'a b'],
    ['--tokens', 'many'],
    ['--delay-ms', '1.5'],
    ['--token-ms', '2147483648'],
    ['--tokens-per-event', '0'],
    ['--chunk-bytes', '1k'],
    ['--line-end', 'LF'],
    ['--fail', 'constructor'],
    ['--fail-after', ''],
  ] as const

  test('every bad value is named, with what was expected and what came', async () => {
    const { status, stdout, stderr } = await command('fake-llm', ...BAD.flat())
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    const [heading, ...lines] = stderr.trimEnd().split('\n')
    expect(heading).toBe('edge fake-llm cannot start:')
    expect(lines).toHaveLength(BAD.length)
    for (const [i, [flag, value]] of BAD.entries()) {
      expect(lines[i]!.startsWith(`  ${flag}: expected `)).toBe(true)
      expect(lines[i]!.endsWith(`, got ${JSON.stringify(value)}`)).toBe(true)
    }
  })

  test('a port that is taken', async () => {
    withoutSignalHandlers()
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const { status, stderr } = await command('fake-llm', '--port', String(port))
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: `edge fake-llm cannot start:\n  --port: port ${port} is in use by another process\n`,
    })
  })

  test('a host that is elsewhere', async () => {
    withoutSignalHandlers()
    const { status, stderr } = await command('fake-llm', '--port', '0', '--host', '192.0.2.1')
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: 'edge fake-llm cannot start:\n  --host: "192.0.2.1" is not an address of this machine\n',
    })
  })
})

describe('the command', () => {
  test.each([[['--tokenz', '3']], [['--tokens']], [['bundle.json']], [['--tokens', '-1']], [['--gzip=yes']]])(
    '%j: 1, named',
    async (args) => {
      const { status, stderr } = await command('fake-llm', ...args)
      expect(status).toBe(1)
      expect(stderr).toContain(args[0]!.split('=')[0])
      expect(stderr).not.toContain('    at ')
    },
  )
})

/** Removes after the test what a command adds that would run on in a process of its own. */
function withoutSignalHandlers(): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const before = process.listeners(signal)
    onTestFinished(() => {
      for (const added of process.listeners(signal)) if (!before.includes(added)) process.off(signal, added)
    })
  }
}

interface Chat {
  readonly choices: {
    readonly index: number
    readonly message: { readonly content: string }
    readonly delta: { readonly content?: string }
    readonly finish_reason: string | null
  }[]
  readonly usage: Readonly<Record<string, unknown>>
}

interface Embeddings {
  readonly data: { readonly object: string; readonly index: number; readonly embedding: number[] | string }[]
}

interface SentEvent {
  readonly name: string | undefined
  readonly data: unknown
}

/** A backend in this process, for as long as the test runs. */
async function fake(options: StartOptions = {}): Promise<FakeLlm> {
  const llm = await startFakeLlm(options)
  onTestFinished(() => llm.close())
  return llm
}

/** A backend in this process, as a command line with these options would have it. */
async function flagged(args: string[]): Promise<FakeLlm> {
  const flags = readFlags(parseArgs({ args, options: flagTypes() }).values)
  if (!flags.ok) throw new Error(flags.problems.join('\n'))
  return fake({ ...flags.options, port: 0 })
}

/** A backend in a process of its own, for as long as the test runs. */
async function faking(args: readonly string[], owner: Pick<TestContext, 'onTestFinished'>): Promise<Cli> {
  const cli = new Cli(['fake-llm', '--port', '0', ...args])
  owner.onTestFinished(async () => {
    cli.process.kill('SIGKILL')
    await cli.exited
  })
  await until(() => cli.stdout.includes('curl') || cli.process.exitCode !== null)
  return cli
}

function send(port: number, path: string, body: object, signal: AbortSignal | null = null): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: JSON.stringify(body), signal })
}

async function post<Body = Chat>(port: number, path: string, body: object): Promise<Body> {
  const response = await send(port, path, body)
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json'])
  return (await response.json()) as Body
}

async function stream(port: number, path: string, body: object): Promise<SentEvent[]> {
  const response = await send(port, path, { ...body, stream: true })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
  const texts = (await response.text()).split('\n\n')
  expect(texts.pop()).toBe('')
  return texts.map((text) => {
    const [, name, data] = /^(?:event: (.*)\n)?data: (.*)$/.exec(text)!
    return { name, data: data === '[DONE]' ? data : JSON.parse(data!) }
  })
}

function dataOf(events: readonly SentEvent[]): unknown[] {
  return events.map(({ data }) => data)
}

/** A chat stream's chunks, as HTTP frames them: each is a write of the backend's. */
async function chunks(port: number): Promise<string[]> {
  const body = JSON.stringify({ messages: HELLO, stream: true })
  const head = `POST ${CHAT} HTTP/1.1\r\nHost: llm\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n`
  let rest = (await exchange(port, head + body)).split(/\r\n\r\n(.*)/s)[1]!
  const found: string[] = []
  while (rest !== '0\r\n\r\n') {
    const size = Number.parseInt(rest, 16)
    const from = rest.indexOf('\r\n') + 2
    found.push(rest.slice(from, from + size))
    rest = rest.slice(from + size + 2)
  }
  return found
}

interface Client {
  /** What has come so far. */
  readonly text: string
  readonly closed: Promise<unknown>
  leave(): void
}

/** A client that can look at half an answer. */
async function open(port: number, path: string, body: object, host = '127.0.0.1'): Promise<Client> {
  const req = request({ port, host, method: 'POST', path, agent: false })
  req.end(JSON.stringify(body))
  const [res] = await once(req, 'response')
  const client = { text: '', closed: new Promise((resolve) => res.on('close', resolve)), leave: () => req.destroy() }
  res.on('error', () => {})
  req.on('error', () => {})
  res.on('data', (chunk: Buffer) => {
    client.text += chunk.toString()
  })
  return client
}
