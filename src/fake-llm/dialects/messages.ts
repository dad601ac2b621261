import { promptTokens } from '../call.ts'
import { type Completion, choiceText, complete, piecesOf } from '../completion.ts'
import type { ErrorKind, FakeDialect, StreamEvent } from '../dialect.ts'

/** Anthropic's POST /v1/messages. */
export const messages: FakeDialect = {
  whole(asked, options) {
    const completion = complete(asked, options)
    const content = [textBlock(choiceText(completion))]
    return { body: message(completion, content, stopReason(completion), completion.tokens), tokens: completion.tokens }
  },

  stream: {
    *events(asked, options) {
      const completion = complete(asked, options)
      // Like the real API, the first event already counts a little output. Later counts include earlier ones.
      const started = message(completion, [], null, Math.min(1, completion.tokens))
      yield event({ type: 'message_start', message: started })
      yield event({ type: 'content_block_start', index: 0, content_block: textBlock('') })
      yield event({ type: 'ping' })
      for (const { tokens, textOf } of piecesOf(completion)) {
        yield event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: textOf(0) } }, tokens)
      }
      yield event({ type: 'content_block_stop', index: 0 })
      yield event({ type: 'message_delta', delta: ending(stopReason(completion)), ...finalUsage(completion) })
      yield event({ type: 'message_stop' })
    },
    errorEvent: (_sequence, text) => event(errorBody('broken', text)),
  },

  promptTokens,
  errorBody,
}

/** Anthropic's POST /v1/messages/count_tokens. */
export const messageCount: FakeDialect = {
  whole: (asked) => ({ body: { input_tokens: promptTokens(asked) }, tokens: 0 }),
  promptTokens: () => 0,
  errorBody,
}

type EventData = { readonly type: string } & Readonly<Record<string, unknown>>

const ERROR_TYPES = { 'bad-request': 'invalid_request_error', 'rate-limited': 'rate_limit_error', broken: 'api_error' } as const

function errorBody(kind: ErrorKind, text: string): EventData {
  return { type: 'error', error: { type: ERROR_TYPES[kind], message: text }, request_id: 'req_fake' }
}

function event(data: EventData, tokens = 0): StreamEvent {
  return { name: data.type, data, tokens }
}

/** `citations` is left out, because the real API omits it for a text without citations, and the Vercel AI SDK does not accept null. */
function textBlock(text: string): object {
  return { type: 'text', text }
}

function stopReason({ isCut }: Completion): string {
  return isCut ? 'max_tokens' : 'end_turn'
}

function message(completion: Completion, content: readonly object[], reason: string | null, tokensSoFar: number): object {
  const { model, hasUsage } = completion
  const usage = {
    ...usageFields(completion, tokensSoFar),
    cache_creation: null,
    inference_geo: null,
    service_tier: 'standard',
    speed: null,
  }
  const head = { id: 'msg_fake', type: 'message', role: 'assistant', model, content, ...ending(reason), diagnostics: null }
  return hasUsage ? { ...head, usage } : head
}

function ending(reason: string | null): object {
  return { stop_reason: reason, stop_sequence: null, stop_details: null, container: null }
}

function finalUsage(completion: Completion): object {
  return completion.hasUsage ? { usage: usageFields(completion, completion.tokens) } : {}
}

/** In this API, cached tokens are not part of input_tokens. */
function usageFields({ promptTokens, cachedTokens }: Completion, tokens: number): object {
  return {
    input_tokens: promptTokens - cachedTokens,
    output_tokens: tokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens_details: null,
    server_tool_use: null,
  }
}
