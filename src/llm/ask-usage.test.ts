import { describe, expect, test } from 'vitest'
import { readLlmRequest } from '../../test/support/llm/json-readers.ts'
import { withUsageRequest } from './ask-usage.ts'
import { type LlmRequest, LlmRequestReader } from './llm-request.ts'

function asked(body: string | Buffer): string {
  const bytes = Buffer.from(body as string)
  const request = withUsageRequest(bytes, readLlmRequest(bytes).streamOptionsAt)
  if (request === 'unchanged') return request
  return `${request.isForClient ? 'for the client: ' : ''}${request.bytes}`
}

describe('a request for a stream asks for its count', () => {
  test.each([
    ['{"stream":true}', '{"stream_options":{"include_usage":true},"stream":true}'],
    [
      ' {\n"stream":true, "messages":[{"content":"é😀"}]}',
      ' {"stream_options":{"include_usage":true},\n"stream":true, "messages":[{"content":"é😀"}]}',
    ],
    ['{"stream":true,"stream_options":null}', '{"stream":true,"stream_options":{"include_usage":true}}'],
    ['{"stream":true,"stream_options":{}}', '{"stream":true,"stream_options":{"include_usage":true}}'],
    ['{"stream_options" : {"include_usage":false} ,"stream":true}', '{"stream_options" : {"include_usage":true} ,"stream":true}'],
    [
      '{"é":"😀","stream_options":{"x":"}é\\"","y":1},"stream":true}',
      '{"é":"😀","stream_options":{"x":"}é\\"","y":1,"include_usage":true},"stream":true}',
    ],
    ['{"stream\\u005foptions":{},"stream":true}', '{"stream\\u005foptions":{"include_usage":true},"stream":true}'],
    ['{"x":{"stream_options":1},"stream":true}', '{"stream_options":{"include_usage":true},"x":{"stream_options":1},"stream":true}'],
    ['\ufeff{"stream":true,"stream_options":{}}', '\ufeff{"stream":true,"stream_options":{"include_usage":true}}'],
    ['{"stream":true,"stream_options":{"x":"\\u20ac"}}', '{"stream":true,"stream_options":{"x":"€","include_usage":true}}'],
    [
      '{"stream":true,"stream_options":{"include_usage":false,"Include_Usage":false}}',
      '{"stream":true,"stream_options":{"include_usage":true}}',
    ],
  ])('%s becomes %s', (body, expected) => {
    expect(asked(body)).toBe(expected)
  })

  test.each([
    ['{"stream":true,"stream_options":{"include_usage":true}}', '{"stream":true,"stream_options":{"include_usage":true}}'],
    [
      '{"stream":true,"stream_options":{"include_usage":true,"Include_Usage":false}}',
      '{"stream":true,"stream_options":{"include_usage":true}}',
    ],
    [
      '{"stream":true,"stream_options":{"include_usage":true,"include_uſage":false}}',
      '{"stream":true,"stream_options":{"include_usage":true}}',
    ],
  ])('which is the client itself that asks: %s', (body, expected) => {
    expect(asked(body)).toBe(`for the client: ${expected}`)
  })

  test.each([
    ['has options of another form', '{"stream":true,"stream_options":[]}'],
    ['has options in its options', '{"stream":true,"stream_options":{"a":{}}}'],
    ['has a text for its options', '{"stream":true,"stream_options":"x"}'],
    ['has very long options', `{"stream":true,"stream_options":{"x":"${'x'.repeat(5000)}"}}`],
    ['has options far behind their name', `{"stream":true,"stream_options":${' '.repeat(5000)}null}`],
    ['asks in a way that some refuse', '{"stream":true,"stream_options":{"include_usage":1}}'],
    ['is in UTF-16', Buffer.from('{"stream":true}', 'utf16le')],
  ])('but not one that %s', (_what, body) => {
    expect(asked(body)).toBe('unchanged')
  })

  test('wherever the body is cut while it is read', () => {
    const bytes = Buffer.from('{"messages":[{"content":"é"}],"stream_options":{},"stream":true}')
    for (let at = 0; at <= bytes.length; at++) {
      const reader = new LlmRequestReader()
      reader.push(bytes, 0, at)
      reader.push(bytes, at, bytes.length)
      expect((reader.end() as LlmRequest).streamOptionsAt).toBe(bytes.indexOf('stream_options') + 'stream_options"'.length)
    }
  })
})
