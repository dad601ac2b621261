import type { Random } from '../random/random.ts'

/** What a provider bills for one request. */
export interface Generation {
  readonly model: string
  /** All of the prompt, what is cached or written included. */
  readonly input: number
  readonly cached: number
  readonly written: number
  /** Those of the written ones that the cache keeps for an hour. */
  readonly writtenForHour: number
  readonly output: number
}

/** How one API is asked, and how it states what it bills. */
export interface BilledApi {
  path(model: string, isStream: boolean): string
  body(model: string, isStream: boolean): object
  whole(generation: Generation): object
  /** Events of a stream, the last of them with the provider's count; undefined if the API has none. */
  events?(generation: Generation, texts: readonly string[]): readonly StreamEvent[]
  readonly hasCache: boolean
  readonly generatesText: boolean
}

export interface StreamEvent {
  readonly name?: string
  readonly data: object | '[DONE]'
}

const DONE: StreamEvent = { data: '[DONE]' }
const MESSAGES = [{ role: 'user', content: 'how are you?' }]

const chat: BilledApi = {
  path: () => '/v1/chat/completions',
  body: (model, isStream) => ({
    ...{ model, messages: MESSAGES, max_tokens: 2_000 },
    ...(isStream && { stream: true, stream_options: { include_usage: true } }),
  }),
  whole: (generation) => ({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    model: generation.model,
    choices: [{ index: 0, message: { role: 'assistant', content: 'fine', refusal: null }, finish_reason: 'stop' }],
    usage: chatUsage(generation),
  }),
  events: (generation, texts) => [
    ...texts.map((content, index) => chunk(generation, [{ index: index % 2, delta: { content }, finish_reason: null }])),
    chunk(generation, [{ index: 0, delta: {}, finish_reason: 'stop' }]),
    chunk(generation, [], { usage: chatUsage(generation) }),
    DONE,
  ],
  hasCache: true,
  generatesText: true,
}

const completions: BilledApi = {
  ...chat,
  path: () => '/v1/completions',
  body: (model, isStream) => ({ model, prompt: 'how are you?', max_tokens: 2_000, ...(isStream && { stream: true }) }),
  whole: (generation) => ({
    model: generation.model,
    usage: chatUsage(generation),
    choices: [{ index: 0, text: 'fine', finish_reason: 'stop' }],
  }),
  events: (generation, texts) => [
    ...texts.map((text) => chunk(generation, [{ index: 0, text, finish_reason: null }])),
    chunk(generation, [{ index: 0, text: '', finish_reason: 'stop' }], { usage: chatUsage(generation) }),
    DONE,
  ],
}

const azure: BilledApi = { ...chat, path: (model) => `/openai/deployments/${model}/chat/completions?api-version=2025-04-01-preview` }

const responses: BilledApi = {
  path: () => '/v1/responses',
  body: (model, isStream) => ({ model, input: 'how are you?', max_output_tokens: 2_000, ...(isStream && { stream: true }) }),
  whole: (generation) => ({
    id: 'resp_1',
    model: generation.model,
    output: [{ type: 'message', content: [{ type: 'output_text', text: 'fine' }] }],
    usage: responsesUsage(generation),
  }),
  events: (generation, texts) => [
    typed('response.created', { response: { id: 'resp_1', model: generation.model, usage: null } }),
    ...texts.map((delta) => typed('response.output_text.delta', { item_id: 'msg_1', output_index: 0, content_index: 0, delta })),
    typed('response.completed', {
      response: {
        id: 'resp_1',
        model: generation.model,
        output: [{ type: 'message', content: [{ type: 'output_text', text: texts.join('') }] }],
        usage: responsesUsage(generation),
      },
    }),
  ],
  hasCache: true,
  generatesText: true,
}

const messages: BilledApi = {
  path: () => '/v1/messages',
  body: (model, isStream) => ({ model, messages: MESSAGES, max_tokens: 2_000, ...(isStream && { stream: true }) }),
  whole: (generation) => ({
    id: 'msg_1',
    type: 'message',
    model: generation.model,
    content: [{ type: 'text', text: 'fine' }],
    stop_reason: 'end_turn',
    usage: messagesUsage(generation),
  }),
  events: (generation, texts) => [
    typed('message_start', {
      message: { model: generation.model, content: [], usage: { ...messagesUsage(generation), output_tokens: 1 } },
    }),
    typed('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    ...texts.map((text) => typed('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })),
    typed('content_block_stop', { index: 0 }),
    typed('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: generation.output } }),
    typed('message_stop', {}),
  ],
  hasCache: true,
  generatesText: true,
}

const vertexMessages: BilledApi = {
  ...messages,
  path: (model, isStream) =>
    `/v1/projects/p/locations/us-east5/publishers/anthropic/models/${model}:${isStream ? 'streamRawPredict' : 'rawPredict'}`,
  body: (_model, isStream) => ({
    anthropic_version: 'vertex-2023-10-16',
    messages: MESSAGES,
    max_tokens: 2_000,
    ...(isStream && { stream: true }),
  }),
}

const gemini: BilledApi = {
  path: (model, isStream) => `/v1beta/models/${model}:${isStream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  body: () => ({ contents: [{ role: 'user', parts: [{ text: 'how are you?' }] }], generationConfig: { maxOutputTokens: 2_000 } }),
  whole: (generation) => geminiChunk(generation, 'fine', 'STOP'),
  events: (generation, texts) =>
    texts.map((text, index) => {
      // Gemini counts as it goes; the last count is the whole one.
      const isLast = index === texts.length - 1
      const output = isLast ? generation.output : Math.min(index, generation.output)
      return { data: geminiChunk({ ...generation, output }, text, isLast ? 'STOP' : undefined) }
    }),
  hasCache: true,
  generatesText: true,
}

/** The same without `alt=sse`: the stream is a JSON list, which is read as a whole response. */
const geminiList: BilledApi = {
  ...{ body: gemini.body, hasCache: true, generatesText: true },
  path: (model) => `/v1beta/models/${model}:streamGenerateContent`,
  whole: (generation) => [geminiChunk({ ...generation, output: 1 }, 'fi'), geminiChunk(generation, 'ne', 'STOP')],
}

const embeddings: BilledApi = {
  path: () => '/v1/embeddings',
  body: (model) => ({ model, input: ['how are you?', 'and you?'] }),
  whole: ({ model, input }) => ({
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: [0.1, -2e-3, 1] }],
    model,
    usage: { prompt_tokens: input, total_tokens: input },
  }),
  hasCache: false,
  generatesText: false,
}

export const BILLED_APIS: Readonly<Record<string, BilledApi>> = {
  ...{ chat, completions, azure, responses, messages, vertexMessages },
  ...{ gemini, geminiList, embeddings },
}

const ZEROS = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
/** More than an event that is read at once. */
const LARGE = 'iVBORw0KGgo'.repeat(110_000)

/** Streams of servers that imitate an API and put its count elsewhere, or write events that are larger than texts are. */
const ODD_STREAMS: Readonly<
  Record<string, readonly ((events: readonly StreamEvent[], generation: Generation) => readonly StreamEvent[])[]>
> = {
  chat: [
    (events, generation) => [...uncounted(events), chunk(generation, [], { x_groq: { id: 'req_1', usage: chatUsage(generation) } }), DONE],
    (events, generation) => [...uncounted(events), chunk(generation, [{ index: 0, delta: {}, usage: chatUsage(generation) }]), DONE],
    (events, generation) => [...uncounted(events), DONE, chunk(generation, [], { usage: chatUsage(generation) })],
    (events, generation) => [...events.slice(0, -1), chunk(generation, [], { usage: ZEROS }), DONE],
    (events) => [{ data: { usageMetadata: {} } }, ...events],
  ],
  responses: [
    (events, generation) => [
      ...events.slice(0, -1),
      typed('response.output_item.done', { item: { type: 'image_generation_call', result: LARGE } }),
      typed('response.completed', {
        response: { model: generation.model, tools: [{ description: LARGE }], usage: responsesUsage(generation), output: [] },
      }),
    ],
  ],
  gemini: [
    (events, generation) => {
      const last = geminiChunk(generation, '', 'STOP') as { candidates: { content: { parts: object[] } }[] }
      last.candidates[0]!.content.parts.unshift({ inlineData: { mimeType: 'image/png', data: LARGE } })
      return [...events.slice(0, -1), { data: last }]
    },
  ],
}

/** Returns the events as another server might write them; the same where no other way is known. */
export function oddStream(random: Random, api: string, events: readonly StreamEvent[], generation: Generation): readonly StreamEvent[] {
  const odd = ODD_STREAMS[api]
  return odd === undefined ? events : random.oneOf(odd)(events, generation)
}

export function anyGeneration(random: Random, model: string, api: BilledApi): Generation {
  const input = random.below(3) === 0 ? 1_000 + random.below(3_000) : 1 + random.below(900)
  const isCached = api.hasCache && random.below(2) === 0
  const cached = isCached ? random.below(input) : 0
  const canWrite = isCached && (api === messages || api === vertexMessages)
  const written = canWrite ? random.below(input - cached) : 0
  return {
    ...{ model, input, cached, written },
    writtenForHour: written > 0 && random.below(2) === 0 ? random.below(written + 1) : 0,
    output: api.generatesText ? 1 + random.below(1_500) : 0,
  }
}

function chunk({ model }: Generation, choices: readonly object[], more: object = {}): StreamEvent {
  return { data: { id: 'chatcmpl-1', object: 'chat.completion.chunk', model, choices, ...more } }
}

/** Without the last two events: the count, and the end. */
function uncounted(events: readonly StreamEvent[]): readonly StreamEvent[] {
  return events.slice(0, -2)
}

function typed(type: string, members: object): StreamEvent {
  return { name: type, data: { type, ...members } }
}

function chatUsage({ input, cached, output }: Generation): object {
  const details = cached > 0 ? { prompt_tokens_details: { cached_tokens: cached, audio_tokens: 0 } } : {}
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output, ...details }
}

function responsesUsage({ input, cached, output }: Generation): object {
  const details = { input_tokens_details: { cached_tokens: cached }, output_tokens_details: { reasoning_tokens: Math.floor(output / 2) } }
  return { input_tokens: input, output_tokens: output, total_tokens: input + output, ...details }
}

/** Anthropic states apart what is cached. */
function messagesUsage({ input, cached, written, writtenForHour, output }: Generation): object {
  return {
    input_tokens: input - cached - written,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: written,
    cache_creation: { ephemeral_5m_input_tokens: written - writtenForHour, ephemeral_1h_input_tokens: writtenForHour },
    output_tokens: output,
  }
}

/** Thoughts are billed as output, and stated apart. */
function geminiChunk({ model, input, cached, output }: Generation, text: string, finishReason?: string): object {
  const thoughts = Math.floor(output / 3)
  return {
    candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, ...(finishReason && { finishReason }) }],
    usageMetadata: {
      promptTokenCount: input,
      ...(cached > 0 && { cachedContentTokenCount: cached }),
      candidatesTokenCount: output - thoughts,
      thoughtsTokenCount: thoughts,
      totalTokenCount: input + output,
    },
    modelVersion: model,
  }
}
