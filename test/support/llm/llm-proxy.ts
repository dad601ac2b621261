import { expect } from 'vitest'
import { type FakeLlm, type FakeLlmStart, startFakeLlm } from '../../../src/fake-llm/server.ts'
import { bundle, llmRule, policy } from '../bundles/bundles.ts'
import type { Edge } from '../service/edge.ts'
import { type Answer, ask, type Fields } from '../service/http.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { running, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { StreamClient } from './stream-client.ts'

export const CHAT = '/v1/chat/completions'
export const COMPLETIONS = '/v1/completions'
export const RESPONSES = '/v1/responses'
export const MESSAGES = '/v1/messages'
export const EMBEDDINGS = '/v1/embeddings'

/** Twelve characters: three tokens. */
export const HELLO = [{ role: 'user', content: 'hello there!' }]
export const HELLO_TOKENS = 3

/** Even while a test's largest request is reserved, the day is the smaller budget, so that each of the two can be made the one that rejects. */
export const MINUTE_TOKENS = 16_000
export const DAY_TOKENS = 8_000

export interface LlmProxyOptions {
  /** Of the one rule, beside its budgets. */
  readonly config?: object
  readonly streaming?: object
  readonly minuteTokens?: number
  readonly dayTokens?: number
  /** Policies beside the one with the budget. */
  readonly policies?: readonly ReturnType<typeof policy>[]
  readonly limitKeys?: readonly string[]
  /** Of the policy with the budget. */
  readonly mode?: 'shadow'
  readonly env?: Readonly<Record<string, string>>
}

/** What a budget has given out and not got back, in each of its two counters. */
export interface Spent {
  readonly minute: number
  readonly day: number
}

/** The edge before an LLM backend, with one budget for everybody, on a clock that stands still. */
export async function llmProxy(backend: { readonly port: number }, options: LlmProxyOptions = {}, owner = thisTest): Promise<LlmProxy> {
  const { config, streaming, minuteTokens = MINUTE_TOKENS, dayTokens = DAY_TOKENS, policies = [], limitKeys = [], mode, env } = options
  const budget = { tokens_per_minute: minuteTokens, tokens_per_day: dayTokens, ...config, ...(streaming && { streaming }) }
  const clock = new ManualClock()
  const rules = [llmRule('budget', limitKeys, budget)]
  const edge = await running(
    {
      clock,
      bundle: bundle(1, policy('llm', { ...(mode && { mode }), rules }), ...policies),
      env: { EDGE_SHUTDOWN_MS: '0', ...proxyEnv(backend), ...env },
    },
    owner,
  )
  return new LlmProxy(edge, clock, minuteTokens, dayTokens)
}

/** The stand-in backend, for as long as the test runs. */
export async function fakeLlm(options: FakeLlmStart = {}, owner = thisTest): Promise<FakeLlm> {
  const fake = await startFakeLlm(options)
  owner.onTestFinished(() => fake.close())
  return fake
}

/** What tells the service where it stands. */
export function proxyEnv({ port }: { readonly port: number }): Record<string, string> {
  return { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: `http://127.0.0.1:${port}` }
}

export class LlmProxy {
  readonly edge: Edge
  readonly clock: ManualClock
  readonly #minuteTokens: number
  readonly #dayTokens: number

  constructor(edge: Edge, clock: ManualClock, minuteTokens: number, dayTokens: number) {
    this.edge = edge
    this.clock = clock
    this.#minuteTokens = minuteTokens
    this.#dayTokens = dayTokens
  }

  get port(): number {
    return this.edge.port
  }

  post(path: string, body: object | string, fields: Fields = []): Promise<Answer> {
    return ask(this.port, 'POST', path, fields, typeof body === 'string' ? body : JSON.stringify(body))
  }

  /** Asks and reads while the answer comes. */
  open(path: string, body: object | string, fields: Fields = []): StreamClient {
    return new StreamClient(this.port, path, typeof body === 'string' ? body : JSON.stringify(body), fields)
  }

  /** Asks for a stream and reads it to its end. */
  stream(path: string, body: object, fields: Fields = []): Promise<StreamClient> {
    return this.open(path, { stream: true, ...body }, fields).untilClosed()
  }

  /** What is spent when nothing is on its way any more. */
  async spent(fields: Fields = []): Promise<Spent> {
    await this.untilQuiet()
    return this.held(fields)
  }

  /** What is spent or reserved now. Asks for more than each budget can ever hold, and the reject tells what there is. */
  async held(fields: Fields = []): Promise<Spent> {
    const [minute, day] = await Promise.all([
      this.#available('tpm_exceeded', this.#minuteTokens, fields),
      this.#available('tpd_exceeded', this.#dayTokens, fields),
    ])
    return { minute: this.#minuteTokens - minute, day: this.#dayTokens - day }
  }

  async untilQuiet(): Promise<void> {
    await until(async () => {
      const { body } = await this.edge.get('/metrics')
      return body.includes('\nedge_proxy_open_requests 0\n') && body.includes('\nedge_llm_open_streams 0\n')
    })
  }

  /** Answers so far, by how they ended. */
  async settlements(): Promise<Record<string, number>> {
    const { body } = await this.edge.get('/metrics')
    const lines = body.matchAll(/^edge_llm_settlements_total\{end="(\w+)"\} (\d+)$/gm)
    return Object.fromEntries([...lines].map(([, end, count]) => [end!, Number(count)]))
  }

  async #available(reason: string, size: number, fields: Fields): Promise<number> {
    // Embeddings reserve nothing beyond their prompt, and one long text is read faster than many tokens.
    const answer = await this.post(EMBEDDINGS, `{"input":"${'x'.repeat(4 * size + 1)}"}`, fields)
    expect([answer.status, answer.headers['x-edge-reason']]).toEqual([429, reason])
    return Number(/and (\d+) are available/.exec(JSON.parse(answer.body).error.message)![1])
  }
}

export function both(tokens: number): Spent {
  return { minute: tokens, day: tokens }
}
