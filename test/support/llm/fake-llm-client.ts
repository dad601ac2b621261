import { once } from 'node:events'
import { request } from 'node:http'
import { parseArgs } from 'node:util'
import { expect, onTestFinished, type TestContext } from 'vitest'
import { flagTypes, readFlags } from '../../../src/fake-llm/flags.ts'
import { type FakeLlm, type FakeLlmStart, startFakeLlm } from '../../../src/fake-llm/server.ts'
import { Cli } from '../service/cli.ts'
import { exchange } from '../service/http.ts'
import { until } from '../until.ts'

export const HELLO = [{ role: 'user', content: 'hello there' }]
export const HELLO_TOKENS = 3

export const CHAT = '/v1/chat/completions'
export const STREAMS = [
  [CHAT, { messages: HELLO }],
  ['/v1/completions', { prompt: 'hello there' }],
  ['/v1/responses', { input: 'hello there' }],
  ['/v1/messages', { messages: HELLO }],
] as const

export interface Chat {
  readonly choices: {
    readonly index: number
    readonly message: { readonly content: string }
    readonly delta: { readonly content?: string }
    readonly finish_reason: string | null
  }[]
  readonly usage: Readonly<Record<string, unknown>>
}

export interface Embeddings {
  readonly data: { readonly object: string; readonly index: number; readonly embedding: number[] | string }[]
}

export interface SentEvent {
  readonly name: string | undefined
  readonly data: unknown
}

/** A backend in this process, for as long as the test runs. */
export async function fake(options: FakeLlmStart = {}): Promise<FakeLlm> {
  const llm = await startFakeLlm(options)
  onTestFinished(() => llm.close())
  return llm
}

/** A backend in this process, as a command line with these options would have it. */
export async function flagged(args: string[]): Promise<FakeLlm> {
  const flags = readFlags(parseArgs({ args, options: flagTypes() }).values)
  if (!flags.ok) throw new Error(flags.problems.join('\n'))
  return fake({ ...flags.options, port: 0 })
}

/** A backend in a process of its own, for as long as the test runs. */
export async function faking(args: readonly string[], owner: Pick<TestContext, 'onTestFinished'>): Promise<Cli> {
  const cli = new Cli(['fake-llm', '--port', '0', ...args])
  owner.onTestFinished(async () => {
    cli.process.kill('SIGKILL')
    await cli.exited
  })
  await until(() => cli.stdout.includes('curl') || cli.process.exitCode !== null)
  return cli
}

export function send(port: number, path: string, body: object, signal: AbortSignal | null = null): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: JSON.stringify(body), signal })
}

export async function post<Body = Chat>(port: number, path: string, body: object): Promise<Body> {
  const response = await send(port, path, body)
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json'])
  return (await response.json()) as Body
}

export async function stream(port: number, path: string, body: object): Promise<SentEvent[]> {
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

export function dataOf(events: readonly SentEvent[]): unknown[] {
  return events.map(({ data }) => data)
}

/** A chat stream's chunks, as HTTP frames them: each is a write of the backend's. */
export async function chunks(port: number): Promise<string[]> {
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

export interface Client {
  /** What has come so far. */
  readonly text: string
  readonly closed: Promise<unknown>
  leave(): void
}

/** A client that can look at half an answer. */
export async function open(port: number, path: string, body: object, host = '127.0.0.1'): Promise<Client> {
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
