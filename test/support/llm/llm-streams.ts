import { type TokenCounts, tokenCounts } from '../../../src/llm/usage.ts'

/** Answers of LLM providers as the wire carries them, with LF line ends. */

export interface RecordedStream {
  readonly name: string
  readonly text: string
  /** Code points of all that the model generated in it. */
  readonly characters: number
  /** The provider's own last word on its cost; undefined: it gives none. */
  readonly prompt: number | undefined
  readonly completion: number | undefined
  /** Prompt tokens that the provider read from its cache, and whether they come on top of `prompt`. */
  readonly cached?: number
  readonly isCachedBeside?: boolean
}

/** What a recorded stream comes to, where its prompt is estimated as so many tokens. */
export function countsOf(recorded: RecordedStream, promptEstimate: number): TokenCounts {
  const { prompt = promptEstimate, completion = Math.ceil(recorded.characters / 4), cached = 0, isCachedBeside, text } = recorded
  const model = /"model":"([^"]+)"/.exec(text)?.[1]
  return tokenCounts(isCachedBeside ? prompt + cached : prompt, completion, {
    cachedInput: cached,
    ...(model !== undefined && { model }),
    ...(recorded.prompt === undefined && { isInputEstimated: true }),
  })
}

export type LineEnd = '\n' | '\r\n' | '\r'

/** The same stream with other line ends. Its JSON has none, so only those of the framing change. */
export function withLineEnds(text: string, lineEnd: LineEnd): string {
  return text.replaceAll('\n', lineEnd)
}

/** One event: its data as JSON or, where that matters, as written. */
export function sse(data: object | string, name?: string): string {
  const text = typeof data === 'string' ? data : JSON.stringify(data)
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`
}

export interface SseEvent {
  readonly event?: string
  readonly data: string
}

/** The events of a whole stream as a client sees them; a plain reading of the standard, for comparison. */
export function parseSse(text: string): SseEvent[] {
  const events: SseEvent[] = []
  let data: string[] = []
  let event: string | undefined
  // Clients read an event without a blank line at the end too: as if one came.
  for (const line of [...text.replace(/^\ufeff/, '').split(/\r\n|\r|\n/), '']) {
    if (line === '') {
      if (data.length > 0) events.push({ ...(event === undefined ? {} : { event }), data: data.join('\n') })
      data = []
      event = undefined
      continue
    }
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/su.exec(line)!
    if (field === 'data') data.push(value ?? '')
    if (field === 'event') event = value ?? ''
  }
  return events
}

const CHAT_HEAD =
  '"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06"'
const CHAT_FIELDS = `${CHAT_HEAD},"service_tier":"default","system_fingerprint":"fp_fc9f1d7035"`

/** A chunk of a chat completion with one choice, as the API spells it. */
export function chatChunk(delta: object, finishReason: string | null = null, index = 0): string {
  const choice = `{"index":${index},"delta":${JSON.stringify(delta)},"logprobs":null,"finish_reason":${JSON.stringify(finishReason)}}`
  return sse(`{${CHAT_FIELDS},"choices":[${choice}]}`)
}

/** A chat stream that says these texts, one a chunk. */
export function chatStream(texts: readonly string[]): string {
  const chunks = texts.map((content) => chatChunk({ content }))
  return [chatChunk({ role: 'assistant', content: '', refusal: null }), ...chunks, chatChunk({}, 'stop'), sse('[DONE]')].join('')
}

/** With `stream_options.include_usage`: null everywhere, and the sums in a last chunk without choices. */
function chatStreamWithUsage(texts: readonly string[], usage: object): string {
  const chunk = (choices: string, sums: string): string => sse(`{${CHAT_FIELDS},"choices":[${choices}],"usage":${sums}}`)
  const choice = (delta: object, reason = 'null'): string =>
    `{"index":0,"delta":${JSON.stringify(delta)},"logprobs":null,"finish_reason":${reason}}`
  return [
    chunk(choice({ role: 'assistant', content: '', refusal: null }), 'null'),
    ...texts.map((content) => chunk(choice({ content }), 'null')),
    chunk(choice({}, '"stop"'), 'null'),
    chunk('', JSON.stringify(usage)),
    sse('[DONE]'),
  ].join('')
}

const WORDS = ['Straße', ' und', ' café', ': 東京', ' 😀👍', '\n\n', '"quoted"', ' \\ back', ' {brace}', '.']
const WORDS_CHARACTERS = 48

const CHAT: RecordedStream = {
  name: 'chat',
  text: chatStream(WORDS),
  characters: WORDS_CHARACTERS,
  prompt: undefined,
  completion: undefined,
}

const CHAT_USAGE: RecordedStream = {
  name: 'chat with usage',
  text: chatStreamWithUsage(WORDS, {
    prompt_tokens: 19,
    completion_tokens: 310,
    total_tokens: 329,
    prompt_tokens_details: { cached_tokens: 16, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 300, audio_tokens: 0 },
  }),
  characters: WORDS_CHARACTERS,
  prompt: 19,
  completion: 310,
  cached: 16,
}

const CHAT_TOOL_CALLS: RecordedStream = {
  name: 'chat with tool calls',
  text: [
    chatChunk({
      role: 'assistant',
      content: null,
      tool_calls: [{ index: 0, id: 'call_DdmO9pD3xa9XTPNJ32zg2hcA', type: 'function', function: { name: 'get_weather', arguments: '' } }],
      refusal: null,
    }),
    ...['{"', 'loc', 'ation', '":"', 'Paris', '"}'].map((text) => chatChunk({ tool_calls: [{ index: 0, function: { arguments: text } }] })),
    chatChunk({ tool_calls: [{ index: 1, id: 'call_2', type: 'function', function: { name: 'get_time', arguments: '{}' } }] }),
    chatChunk({}, 'tool_calls'),
    sse('[DONE]'),
  ].join(''),
  characters: 22,
  prompt: undefined,
  completion: undefined,
}

const CHAT_TWO_CHOICES: RecordedStream = {
  name: 'chat with two choices',
  text: [
    chatChunk({ role: 'assistant', content: '', refusal: null }, null, 0),
    chatChunk({ role: 'assistant', content: '', refusal: null }, null, 1),
    chatChunk({ content: 'Heads' }, null, 0),
    chatChunk({ content: 'Tails,' }, null, 1),
    chatChunk({}, 'stop', 0),
    chatChunk({ content: ' I think' }, null, 1),
    chatChunk({}, 'stop', 1),
    sse('[DONE]'),
  ].join(''),
  characters: 19,
  prompt: undefined,
  completion: undefined,
}

/** As routers in front of reasoning models answer: heartbeats, `reasoning_content`, usage in the last content chunk, no blank before data. */
const CHAT_REASONING: RecordedStream = {
  name: 'chat with reasoning and heartbeats',
  text: [
    ': OPENROUTER PROCESSING\n\n',
    ': OPENROUTER PROCESSING\n\n',
    'data:{"id":"gen-1","provider":"DeepSeek","model":"deepseek/deepseek-r1","object":"chat.completion.chunk","created":1.7e9,',
    '"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":"Let me think"},"finish_reason":null}]}\n\n',
    ': keep-alive\n',
    'data:{"id":"gen-1","model":"deepseek/deepseek-r1","object":"chat.completion.chunk","created":1.7e9,',
    '"choices":[{"index":0,"delta":{"role":"assistant","content":"42","reasoning_content":null},"finish_reason":"stop"}],',
    '"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}\n\n',
    'data:[DONE]\n\n',
  ].join(''),
  characters: 14,
  prompt: 7,
  completion: 5,
}

const CHAT_ERROR_MIDWAY: RecordedStream = {
  name: 'chat that breaks midway',
  text: [
    chatChunk({ role: 'assistant', content: '', refusal: null }),
    chatChunk({ content: 'The answer is' }),
    sse({ error: { message: 'The server had an error while processing your request', type: 'server_error', param: null, code: null } }),
  ].join(''),
  characters: 13,
  prompt: undefined,
  completion: undefined,
}

const COMPLETIONS: RecordedStream = {
  name: 'completions',
  text: [
    ...['\n\nThis', ' is', ' a', ' test'].map((text) =>
      sse({
        id: 'cmpl-7iA7iJjj8V2zOkCGvWF2hAkDWBQZe',
        object: 'text_completion',
        created: 1690759702,
        choices: [{ text, index: 0, logprobs: null, finish_reason: null }],
        model: 'gpt-3.5-turbo-instruct',
      }),
    ),
    sse({
      id: 'cmpl-7iA7iJjj8V2zOkCGvWF2hAkDWBQZe',
      object: 'text_completion',
      created: 1690759702,
      choices: [{ text: '', index: 0, logprobs: null, finish_reason: 'stop' }],
      model: 'gpt-3.5-turbo-instruct',
      usage: { prompt_tokens: 5, completion_tokens: 6, total_tokens: 11 },
    }),
    sse('[DONE]'),
  ].join(''),
  characters: 16,
  prompt: 5,
  completion: 6,
}

function responsesEvent(type: string, sequence: number, fields: object): string {
  return sse({ type, sequence_number: sequence, ...fields }, type)
}

function responsesResponse(fields: object): object {
  return {
    id: 'resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654',
    object: 'response',
    created_at: 1741487325,
    status: 'in_progress',
    error: null,
    incomplete_details: null,
    instructions: 'You are a helpful assistant.',
    max_output_tokens: null,
    model: 'gpt-4.1-2025-04-14',
    output: [],
    parallel_tool_calls: true,
    usage: null,
    metadata: {},
    ...fields,
  }
}

const MESSAGE_ITEM = {
  id: 'msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654',
  type: 'message',
  status: 'in_progress',
  role: 'assistant',
}

/** A Responses stream that says these texts, one a delta. */
export function responsesStream(texts: readonly string[]): string {
  const where = { item_id: MESSAGE_ITEM.id, output_index: 0, content_index: 0 }
  const part = { type: 'output_text', text: texts.join(''), annotations: [] }
  const item = { ...MESSAGE_ITEM, status: 'completed', content: [part] }
  const usage = {
    input_tokens: 37,
    input_tokens_details: { cached_tokens: 32 },
    output_tokens: 11,
    output_tokens_details: { reasoning_tokens: 6 },
    total_tokens: 48,
  }
  const last = texts.length + 4
  return [
    responsesEvent('response.created', 0, { response: responsesResponse({}) }),
    responsesEvent('response.in_progress', 1, { response: responsesResponse({}) }),
    responsesEvent('response.output_item.added', 2, { output_index: 0, item: { ...MESSAGE_ITEM, content: [] } }),
    responsesEvent('response.content_part.added', 3, { ...where, part: { ...part, text: '' } }),
    ...texts.map((delta, i) => responsesEvent('response.output_text.delta', i + 4, { ...where, delta })),
    responsesEvent('response.output_text.done', last, { ...where, text: part.text }),
    responsesEvent('response.content_part.done', last + 1, { ...where, part }),
    responsesEvent('response.output_item.done', last + 2, { output_index: 0, item }),
    responsesEvent('response.completed', last + 3, { response: responsesResponse({ status: 'completed', output: [item], usage }) }),
  ].join('')
}

const RESPONSES: RecordedStream = {
  name: 'Responses',
  text: responsesStream(WORDS),
  characters: WORDS_CHARACTERS,
  prompt: 37,
  completion: 11,
  cached: 32,
}

const RESPONSES_CALL: RecordedStream = {
  name: 'Responses with reasoning, a refusal and a call',
  text: [
    responsesEvent('response.created', 0, { response: responsesResponse({}) }),
    responsesEvent('response.reasoning_summary_text.delta', 1, { item_id: 'rs_1', output_index: 0, summary_index: 0, delta: 'Thinking' }),
    responsesEvent('response.reasoning_summary_text.done', 2, { item_id: 'rs_1', output_index: 0, summary_index: 0, text: 'Thinking' }),
    responsesEvent('response.refusal.delta', 3, { item_id: 'msg_1', output_index: 1, content_index: 0, delta: 'I cannot' }),
    responsesEvent('response.refusal.done', 4, { item_id: 'msg_1', output_index: 1, content_index: 0, refusal: 'I cannot' }),
    responsesEvent('response.function_call_arguments.delta', 5, { item_id: 'fc_1', output_index: 2, delta: '{"a":' }),
    responsesEvent('response.function_call_arguments.delta', 6, { item_id: 'fc_1', output_index: 2, delta: '1}' }),
    responsesEvent('response.function_call_arguments.done', 7, { item_id: 'fc_1', output_index: 2, arguments: '{"a":1}' }),
    responsesEvent('response.incomplete', 8, {
      response: responsesResponse({
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        usage: { input_tokens: 9, output_tokens: 16, total_tokens: 25 },
      }),
    }),
  ].join(''),
  characters: 23,
  prompt: 9,
  completion: 16,
}

function anthropicEvent(type: string, fields: object): string {
  return sse({ type, ...fields }, type)
}

function anthropicStart(inputTokens: number): string {
  return anthropicEvent('message_start', {
    message: {
      id: 'msg_01EcyWo6m4hyW8KHs2y2pei5',
      type: 'message',
      role: 'assistant',
      model: 'claude-sonnet-4-5-20250929',
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: inputTokens, cache_creation_input_tokens: 0, cache_read_input_tokens: 100, output_tokens: 2 },
    },
  })
}

/** An Anthropic stream that says these texts, one a delta. */
export function anthropicStream(texts: readonly string[]): string {
  return [
    anthropicStart(25),
    anthropicEvent('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    anthropicEvent('ping', {}),
    ...texts.map((text) => anthropicEvent('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })),
    anthropicEvent('content_block_stop', { index: 0 }),
    anthropicEvent('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 15 } }),
    anthropicEvent('message_stop', {}),
  ].join('')
}

const ANTHROPIC: RecordedStream = {
  name: 'Anthropic',
  text: anthropicStream(WORDS),
  characters: WORDS_CHARACTERS,
  prompt: 25,
  completion: 15,
  cached: 100,
  isCachedBeside: true,
}

const ANTHROPIC_TOOL_USE: RecordedStream = {
  name: 'Anthropic with thinking and a tool',
  text: [
    anthropicStart(472),
    anthropicEvent('content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } }),
    anthropicEvent('content_block_delta', { index: 0, delta: { type: 'thinking_delta', thinking: 'Which city?' } }),
    anthropicEvent('content_block_delta', { index: 0, delta: { type: 'signature_delta', signature: 'EqQBCgIYAhIM1gbcDa9GJwZA2b3h' } }),
    anthropicEvent('content_block_stop', { index: 0 }),
    anthropicEvent('content_block_start', {
      index: 1,
      content_block: { type: 'tool_use', id: 'toolu_01T1x1fJ34qAmk2tNTrN7Up6', name: 'get_weather', input: {} },
    }),
    anthropicEvent('content_block_delta', { index: 1, delta: { type: 'input_json_delta', partial_json: '' } }),
    anthropicEvent('content_block_delta', { index: 1, delta: { type: 'input_json_delta', partial_json: '{"location":' } }),
    anthropicEvent('content_block_delta', { index: 1, delta: { type: 'input_json_delta', partial_json: ' "SF"}' } }),
    anthropicEvent('content_block_stop', { index: 1 }),
    anthropicEvent('message_delta', { delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 40 } }),
    anthropicEvent('message_delta', {
      delta: { stop_reason: 'tool_use', stop_sequence: null },
      usage: { input_tokens: 474, output_tokens: 89 },
    }),
    anthropicEvent('message_stop', {}),
  ].join(''),
  characters: 29,
  prompt: 474,
  completion: 89,
  cached: 100,
  isCachedBeside: true,
}

/** Streams that bring text. */
export const RECORDED_STREAMS: readonly RecordedStream[] = [
  CHAT,
  CHAT_USAGE,
  CHAT_TOOL_CALLS,
  CHAT_TWO_CHOICES,
  CHAT_REASONING,
  CHAT_ERROR_MIDWAY,
  COMPLETIONS,
  RESPONSES,
  RESPONSES_CALL,
  ANTHROPIC,
  ANTHROPIC_TOOL_USE,
]

/** Streams that are an error and nothing else, by the API that answers so. */
export const FAILED_STREAMS: Readonly<Record<string, string>> = {
  chat: sse({ error: { message: 'The engine is currently overloaded', type: 'server_error', param: null, code: null } }),
  'chat after a first chunk': [
    chatChunk({ role: 'assistant', content: '', refusal: null }),
    sse({ error: { message: 'Internal error', type: 'server_error', param: null, code: null } }),
  ].join(''),
  Responses: [
    responsesEvent('response.created', 0, { response: responsesResponse({}) }),
    responsesEvent('response.failed', 1, {
      response: responsesResponse({
        status: 'failed',
        error: { code: 'server_error', message: 'The model failed to generate a response.' },
      }),
    }),
  ].join(''),
  'Responses with an error event': [
    responsesEvent('response.created', 0, { response: responsesResponse({}) }),
    responsesEvent('error', 1, { code: 'server_error', message: 'The server had an error', param: null }),
  ].join(''),
  Anthropic: anthropicEvent('error', { error: { type: 'overloaded_error', message: 'Overloaded' } }),
}
