import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  CHAT,
  type Chat,
  dataOf,
  type Embeddings,
  fake,
  faking,
  flagged,
  HELLO,
  HELLO_TOKENS,
  open,
  post,
  stream,
} from '../../support/llm/fake-llm-client.ts'
import { command } from '../../support/service/command.ts'
import { ask } from '../../support/service/http.ts'
import { until } from '../../support/until.ts'

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

  test('as a stream with usage', async () => {
    const { port } = await fake({ tokens: 2 })
    const data = dataOf(await stream(port, CHAT, { messages: HELLO, stream_options: { include_usage: true } }))
    const usage = { prompt_tokens: HELLO_TOKENS, completion_tokens: 2, total_tokens: HELLO_TOKENS + 2 }
    expect(data.slice(0, -2).map((chunk) => (chunk as { usage: unknown }).usage)).toEqual([null, null, null, null])
    expect(data.slice(-2)).toEqual([expect.objectContaining({ choices: [], usage: expect.objectContaining(usage) }), '[DONE]'])
  })
})

describe('messages', () => {
  test('in one piece, whose text has no citations', async () => {
    const { port } = await fake({ tokens: 2 })
    const body = await post<{ content: unknown }>(port, '/v1/messages', { model: 'm', messages: HELLO, max_tokens: 9 })
    expect(body).toMatchObject({ type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn', usage: { output_tokens: 2 } })
    expect(body.content).toEqual([{ type: 'text', text: 'the old ' }])
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

  test('GET /v1/models has one', async () => {
    const { port } = await fake()
    const { status, body } = await ask(port, 'GET', '/v1/models?limit=1')
    expect({ status, body: JSON.parse(body) }).toMatchObject({ status: 200, body: { object: 'list', data: [{ object: 'model' }] } })
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
})

describe('edge fake-llm', () => {
  test('--help names every option and starts nothing', async () => {
    const { status, stdout, stderr } = await command('fake-llm', '--help')
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const names = [
      'port',
      'host',
      'tokens',
      'delay-ms',
      'token-ms',
      'tokens-per-event',
      'chunk-bytes',
      'line-end',
      'fail',
      'fail-after',
      'retry-after',
      'seed',
    ]
    for (const name of [...names, 'no-usage', 'gzip']) expect(stdout).toMatch(new RegExp(`^  --${name} `, 'm'))
  })
})

describe('the options of edge fake-llm', () => {
  test('--tokens and --tokens-per-event', async () => {
    const { port } = await flagged(['--tokens', '5', '--tokens-per-event', '2'])
    const chunks = dataOf(await stream(port, CHAT, { messages: HELLO })).slice(0, -1) as Chat[]
    expect(chunks.map(({ choices }) => choices[0]!.delta.content).filter(Boolean)).toEqual(['the old ', 'fox saw ', 'the '])
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
