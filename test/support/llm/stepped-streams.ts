import { EventEmitter, once } from 'node:events'
import { request } from 'node:http'
import { Random } from '../random/random.ts'
import { HELLO, HELLO_TOKENS } from './llm-proxy.ts'
import { chatChunk, sse } from './llm-streams.ts'
import { type ScriptedCall, type ScriptedLlm, scriptedLlm } from './scripted-llm.ts'

/** An API whose streams can be cut: how it asks, what it says, and how a stream ends. */
interface StreamApi {
  readonly path: string
  readonly body: object
  readonly head: string
  text(text: string): string
  end(completionTokens: number): string
  /** The last events of a stream that its model has ended, and of one that its budget has cut, in either way. */
  readonly ends: { readonly whole: RegExp; readonly graceful: RegExp; readonly error: RegExp }
}

/** More than any of these streams uses. */
const MAX_TOKENS = 20_000
const CUT_ERROR = /"code":"(?:tpd|budget)_exceeded"[^\n]*\n\n(?:data: \[DONE\]\n\n)?$/

const said = (text: string, finishReason?: string): string =>
  sse({
    candidates: [{ content: { parts: [{ text }], role: 'model' }, index: 0, ...(finishReason && { finishReason }) }],
    modelVersion: 'm',
  })

const STREAM_APIS: Readonly<Record<string, StreamApi>> = {
  chat: {
    path: '/v1/chat/completions',
    body: { model: 'm', stream: true, messages: HELLO, max_tokens: MAX_TOKENS },
    head: chatChunk({ role: 'assistant', content: '' }),
    text: (content) => chatChunk({ content }),
    end: () => chatChunk({}, 'stop') + sse('[DONE]'),
    ends: {
      whole: /"finish_reason":"stop"[^\n]*\n\ndata: \[DONE\]\n\n$/,
      graceful: /"finish_reason":"length"[^\n]*\n\ndata: \[DONE\]\n\n$/,
      error: CUT_ERROR,
    },
  },
  responses: {
    path: '/v1/responses',
    body: { model: 'm', stream: true, input: 'hello there!', max_output_tokens: MAX_TOKENS },
    head: sse({ type: 'response.created', sequence_number: 0, response: { id: 'r', status: 'in_progress', model: 'm' } }),
    text: (delta) =>
      sse({ type: 'response.output_text.delta', sequence_number: 1, item_id: 'i', output_index: 0, content_index: 0, delta }),
    end: (tokens) => {
      const usage = { input_tokens: HELLO_TOKENS, output_tokens: tokens, total_tokens: HELLO_TOKENS + tokens }
      return sse({ type: 'response.completed', sequence_number: 2, response: { usage, status: 'completed' } })
    },
    ends: {
      whole: /"status":"completed"}}\n\n$/,
      graceful: /"type":"response.incomplete".*"reason":"max_output_tokens"[^\n]*\n\n$/,
      error: CUT_ERROR,
    },
  },
  messages: {
    path: '/v1/messages',
    body: { model: 'm', stream: true, messages: HELLO, max_tokens: MAX_TOKENS },
    head:
      sse({ type: 'message_start', message: { id: 'a', model: 'm', usage: { input_tokens: HELLO_TOKENS, output_tokens: 1 } } }) +
      sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
    text: (text) => sse({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
    end: (tokens) =>
      sse({ type: 'content_block_stop', index: 0 }) +
      sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: tokens } }) +
      sse({ type: 'message_stop' }),
    ends: {
      whole: /"stop_reason":"end_turn"[^\n]*\n\n[^\n]*"message_stop"}\n\n$/,
      graceful: /"stop_reason":"max_tokens"[^\n]*\n\nevent: message_stop\n[^\n]*\n\n$/,
      error: CUT_ERROR,
    },
  },
  gemini: {
    path: '/v1beta/models/m:streamGenerateContent?alt=sse',
    body: { contents: [{ parts: [{ text: 'hello there!' }] }], generationConfig: { maxOutputTokens: MAX_TOKENS } },
    head: said(''),
    text: (text) => said(text),
    end: () => said('', 'STOP'),
    ends: {
      whole: /"finishReason":"STOP"[^\n]*\n\n$/,
      graceful: /"finishReason":"MAX_TOKENS"[^\n]*\n\n$/,
      error: /"status":"RESOURCE_EXHAUSTED"[^\n]*\n\n$/,
    },
  },
}

/** The text of all streams is made of this character, which occurs nowhere else in them. */
const LETTER = '#'
const LETTER_BYTE = LETTER.charCodeAt(0)
/** A backend sends so many events before its client has seen them, with so many tokens each. */
const MAX_EVENTS = 3
const MAX_EVENT_TOKENS = 20
export const MAX_BATCH_TOKENS = MAX_EVENTS * MAX_EVENT_TOKENS

/**
 * Streams whose backend and client are both the test's. The backend sends a few events, in pieces that are split anywhere, and goes on when the client has
 * them: so what a proxy may read at once is known.
 */
export class SteppedStreams {
  readonly all: SteppedStream[] = []
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
  }

  /** Starts the backend of all streams. */
  listen(): Promise<ScriptedLlm> {
    return scriptedLlm((call) => this.all[Number(call.req.headers['x-stream'])]!.play(call))
  }

  open(port: number): SteppedStream {
    const stream = new SteppedStream(port, this.all.length, new Random(this.#random.below(2 ** 32)))
    this.all.push(stream)
    return stream
  }

  /** Those that a backend was asked for: all others were rejected. */
  get admitted(): SteppedStream[] {
    return this.all.filter(({ wasAdmitted }) => wasAdmitted)
  }

  /** Tokens that all clients have seen. */
  get seenTokens(): number {
    return this.all.reduce((sum, { seenTokens }) => sum + seenTokens, 0)
  }
}

/** One stream: its client, and what its backend does. */
export class SteppedStream {
  readonly port: number
  status: number | undefined
  /** `whole`: the response came to its end; `broken`: it did not. */
  outcome: 'open' | 'whole' | 'broken' = 'open'
  wasAdmitted = false
  /** Tokens of the largest batch that was sent at once. */
  largestBatch = 0
  readonly #api: StreamApi
  readonly #random: Random
  /** What the model says, if nobody cuts it. */
  readonly #plannedTokens: number
  readonly #chunks: Buffer[] = []
  readonly #changes = new EventEmitter()
  #letters = 0

  constructor(port: number, number: number, random: Random) {
    this.port = port
    this.#api = random.oneOf(Object.values(STREAM_APIS))
    this.#random = random
    this.#plannedTokens = random.below(3) === 0 ? 1 + random.below(300) : Number.POSITIVE_INFINITY
    const { path, body } = this.#api
    const headers = { 'X-Stream': String(number) }
    const req = request({ host: '127.0.0.1', port, method: 'POST', path, headers, agent: false }, (res) => {
      this.status = res.statusCode
      res.on('data', (chunk: Buffer) => this.#read(chunk))
      res.on('end', () => this.#close('whole'))
      res.on('error', () => this.#close('broken'))
    })
    req.on('error', () => this.#close('broken'))
    req.on('close', () => this.#close('broken'))
    req.end(JSON.stringify(body))
  }

  /** Tokens that the client has seen. */
  get seenTokens(): number {
    return this.#letters / 4
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString()
  }

  async closed(): Promise<this> {
    while (this.outcome === 'open') await once(this.#changes, 'change')
    return this
  }

  /** Whether the client was told how it ended, in the words of its API. */
  endsInOrder(closing: 'graceful_close' | 'error_chunk'): boolean {
    const { whole, graceful, error } = this.#api.ends
    const cut = closing === 'graceful_close' ? graceful : error
    return whole.test(this.text) || cut.test(this.text)
  }

  async play(call: ScriptedCall): Promise<void> {
    const { head, text, end } = this.#api
    this.wasAdmitted = true
    call.begin()
    await this.#send(call, head)
    let sent = 0
    while (sent < this.#plannedTokens) {
      const before = sent
      let events = ''
      for (let count = 1 + this.#random.below(MAX_EVENTS); count > 0 && sent < this.#plannedTokens; count--) {
        const tokens = Math.min(1 + this.#random.below(MAX_EVENT_TOKENS), this.#plannedTokens - sent)
        events += text(LETTER.repeat(4 * tokens))
        sent += tokens
      }
      this.largestBatch = Math.max(this.largestBatch, sent - before)
      await this.#send(call, events)
      while (this.outcome === 'open' && this.seenTokens < sent) await once(this.#changes, 'change')
      if (this.outcome !== 'open') return
    }
    await this.#send(call, end(sent))
    call.end()
  }

  /** In pieces that begin and end anywhere. */
  async #send(call: ScriptedCall, text: string): Promise<void> {
    const bytes = Buffer.from(text)
    for (let from = 0; from < bytes.length && !call.isAborted; ) {
      const to = Math.min(bytes.length, from + 1 + this.#random.below(2 * bytes.length))
      await call.write(bytes.subarray(from, to))
      from = to
    }
  }

  #read(chunk: Buffer): void {
    this.#chunks.push(chunk)
    for (const byte of chunk) if (byte === LETTER_BYTE) this.#letters++
    this.#changes.emit('change')
  }

  #close(outcome: 'whole' | 'broken'): void {
    if (this.outcome === 'open') this.outcome = outcome
    this.#changes.emit('change')
  }
}
