import { execFile } from 'node:child_process'
import { request } from 'node:http'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DEFAULT_OPTIONS } from '../../../src/fake-llm/flags.ts'
import { startFakeLlm } from '../../../src/fake-llm/server.ts'
import {
  CHAT,
  type Chat,
  chunks,
  dataOf,
  type Embeddings,
  fake,
  faking,
  flagged,
  HELLO,
  open,
  post,
  STREAMS,
  send,
  stream,
} from '../../support/llm/fake-llm-client.ts'
import { RunningTime } from '../../support/running-time.ts'
import { command } from '../../support/service/command.ts'
import { ask } from '../../support/service/http.ts'
import { serverPort } from '../../support/service/server-port.ts'
import { until } from '../../support/until.ts'

/** Removes after the test what a command adds that would run on in a process of its own. */
function withoutSignalHandlers(): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const before = process.listeners(signal)
    onTestFinished(() => {
      for (const added of process.listeners(signal)) if (!before.includes(added)) process.off(signal, added)
    })
  }
}

describe('chat completions', () => {
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

describe('embeddings', () => {
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
  test('cut by the request', async () => {
    const { port } = await fake({ tokens: 2 })
    const asked = { input: 'hello there', max_output_tokens: 1 }
    const cut = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, usage: { output_tokens: 1 } }
    expect(await post(port, '/v1/responses', asked)).toMatchObject(cut)
    expect(dataOf(await stream(port, '/v1/responses', asked)).at(-1)).toMatchObject({ type: 'response.incomplete', response: cut })
  })
})

describe('what it does not answer', () => {
  test.each(STREAMS)('%s: a body that is no JSON object gets 400', async (path) => {
    const { port } = await fake()
    for (const bad of ['', '{', '[]', '"text"', 'null']) {
      const { status, body } = await ask(port, 'POST', path, [], bad)
      expect({ status, body: JSON.parse(body) }).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error' } } })
    }
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
  test('edge --help names it', async () => {
    expect((await command('--help')).stdout).toContain('edge fake-llm')
  })
})

describe('the options of edge fake-llm', () => {
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
})

describe('edge fake-llm with bad options', () => {
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
