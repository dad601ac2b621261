import { describe, expect, test } from 'vitest'
import { AnthropicDialect } from './anthropic.ts'
import { ChatDialect } from './chat.ts'
import { defaultDialect, StreamDialects } from './dialect-of.ts'
import { ResponsesDialect } from './responses.ts'

describe('the dialect of an event', () => {
  test.each([[{ choices: [] }], [{ choices: [{ index: 0, delta: {} }], id: 'x' }], [{ choices: [{ text: 'x' }], type: 'ping' }]])(
    'is chat where it has choices: %j',
    (event) => {
      expect(new StreamDialects().of(event)).toBeInstanceOf(ChatDialect)
    },
  )

  test.each([
    ['response.created'],
    ['response.output_text.delta'],
    ['response.completed'],
    ['response.some_new_thing'],
    ['transcript.text.delta'],
  ])('is Responses where its type is %s', (type) => {
    expect(new StreamDialects().of({ type })).toBeInstanceOf(ResponsesDialect)
  })

  test.each([
    ['message_start'],
    ['content_block_start'],
    ['content_block_delta'],
    ['content_block_stop'],
    ['message_delta'],
    ['message_stop'],
  ])('is Anthropic where its type is %s', (type) => {
    expect(new StreamDialects().of({ type })).toBeInstanceOf(AnthropicDialect)
  })

  test.each([
    [{}],
    [{ type: 'error', error: {} }],
    [{ type: 5 }],
    [{ choices: {} }],
    [{ choices: null }],
    [{ type: 'responses' }],
    [{ error: {} }],
  ])('could be any where it is %j', (event) => {
    expect(new StreamDialects().of(event)).toBeUndefined()
  })

  test('is chat where nothing was understood', () => {
    expect(defaultDialect()).toBeInstanceOf(ChatDialect)
  })
})
