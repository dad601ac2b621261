import Anthropic from '@anthropic-ai/sdk'
import { ApiError, GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { fakeLlm, type LlmProxy, llmProxy } from '../../support/llm/llm-proxy.ts'
import { moneyProxy } from '../../support/llm/money-proxy.ts'
import { CHAT, client as openai } from '../../support/llm/openai-client.ts'
import { untilFailure } from '../../support/llm/sdk-proxy.ts'

/** Official clients whose streams use up a budget. A model that reached its limit and a budget that ended look the same to them. */

type Port = { readonly port: number }
type Closing = 'graceful_close' | 'error_chunk'

interface Sdk {
  readonly name: string
  /** The text that came, what the client says of the end, and what it threw. */
  stream(server: Port): Promise<{ text: string; end: unknown; failure: unknown }>
  /** What the client says where a model has reached its limit. */
  readonly end: unknown
  /** What it throws, or says, with this code. */
  expectFailure(played: { end: unknown; failure: unknown }, code: string): void
}

const ANTHROPIC = { model: 'claude', max_tokens: 20_000, messages: CHAT.messages }
const INPUT = { model: 'm', input: 'hello there!' }

function anthropic({ port }: Port): Anthropic {
  return new Anthropic({ baseURL: `http://127.0.0.1:${port}`, apiKey: 'sk-ant-test', maxRetries: 0 })
}

function expectOpenAiFailure({ failure }: { failure: unknown }, code: string): void {
  expect(failure).toBeInstanceOf(OpenAI.APIError)
  expect(failure).toMatchObject({ code, type: 'rate_limit_error' })
}

const SDKS: readonly Sdk[] = [
  {
    name: 'chat',
    async stream(server) {
      const { items, failure } = await untilFailure(await openai(server).chat.completions.create({ ...CHAT, stream: true }))
      const text = items.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
      return { text, end: items.at(-1)?.choices[0]?.finish_reason, failure }
    },
    end: 'length',
    expectFailure: expectOpenAiFailure,
  },
  {
    name: 'completions',
    async stream(server) {
      const asked = { model: 'm', prompt: 'hello there!', stream: true } as const
      const { items, failure } = await untilFailure(await openai(server).completions.create(asked))
      return { text: items.map(({ choices }) => choices[0]?.text ?? '').join(''), end: items.at(-1)?.choices[0]?.finish_reason, failure }
    },
    end: 'length',
    expectFailure: expectOpenAiFailure,
  },
  {
    name: 'Responses',
    async stream(server) {
      const { items, failure } = await untilFailure(await openai(server).responses.create({ ...INPUT, stream: true }))
      const last = items.at(-1)
      const text = items.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('')
      const end = last?.type === 'response.incomplete' ? [last.response.status, last.response.incomplete_details?.reason] : last
      return { text, end, failure }
    },
    end: ['incomplete', 'max_output_tokens'],
    // This client hands an error that comes in a stream on as the event that it is.
    expectFailure: ({ end }, code) => expect(end).toMatchObject({ type: 'error', code }),
  },
  {
    name: 'messages',
    async stream(server) {
      const stream = anthropic(server).messages.stream(ANTHROPIC)
      const { items, failure } = await untilFailure(stream)
      const text = items.map((event) => (event.type === 'content_block_delta' && 'text' in event.delta ? event.delta.text : '')).join('')
      return { text, end: failure === undefined ? (await stream.finalMessage()).stop_reason : undefined, failure }
    },
    end: 'max_tokens',
    expectFailure({ failure }, code) {
      expect(failure).toBeInstanceOf(Anthropic.APIError)
      expect(failure).toMatchObject({ error: { type: 'error', error: { type: 'rate_limit_error', code } } })
    },
  },
  {
    name: 'Gemini',
    async stream({ port }) {
      const sdk = new GoogleGenAI({ vertexai: false, apiKey: 'key-test', httpOptions: { baseUrl: `http://127.0.0.1:${port}` } })
      const asked = { model: 'gemini-x', contents: 'hello there!' }
      const { items, failure } = await untilFailure(await sdk.models.generateContentStream(asked))
      return { text: items.map(({ text }) => text ?? '').join(''), end: items.at(-1)?.candidates?.[0]?.finishReason, failure }
    },
    end: 'MAX_TOKENS',
    expectFailure({ failure }, code) {
      expect(failure).toBeInstanceOf(ApiError)
      expect((failure as ApiError).status).toBe(429)
      expect((failure as ApiError).message).toContain('RESOURCE_EXHAUSTED')
      expect((failure as ApiError).message).toContain(code === 'tpd_exceeded' ? 'the daily token budget' : 'the budget')
    },
  },
]

const reserve = { first: 100, step: 100 }
/** Less than a smallest step is left of 300 tokens: every token costs eight hundredths where it is paid for, and one of the prompt four. */
const BUDGETS: Readonly<Record<string, (fake: Port, closing: Closing) => Promise<LlmProxy>>> = {
  tpd_exceeded: (fake, closing) => llmProxy(fake, { dayTokens: 300, config: { reserve }, streaming: { on_limit_exceeded: closing } }),
  budget_exceeded: (fake, closing) => moneyProxy(fake, { budget: 24, config: { reserve, streaming: { on_limit_exceeded: closing } } }),
}

describe.each(SDKS)('the client of $name, whose budget ends in the middle of a stream', (sdk) => {
  test.each(Object.entries(BUDGETS))('%s: the stream ends as at a limit of the model, or with its own error', async (code, proxyTo) => {
    const fake = await fakeLlm({ tokens: 1000 })
    const { text: whole } = await sdk.stream(fake)
    for (const closing of ['graceful_close', 'error_chunk'] as const) {
      const proxy = await proxyTo(fake, closing)
      const played = await sdk.stream(proxy)
      const tokens = played.text.length / 4
      expect(whole.startsWith(played.text)).toBe(true)
      expect(tokens).toBeGreaterThan(300 - 3 - 100 / 16 - 1)
      expect(tokens).toBeLessThanOrEqual(300)
      if (closing === 'graceful_close') expect([played.end, played.failure]).toEqual([sdk.end, undefined])
      else sdk.expectFailure(played, code)
      await proxy.untilQuiet()
      expect(await proxy.settlements()).toEqual({ truncated: 1 })
    }
  })
})
