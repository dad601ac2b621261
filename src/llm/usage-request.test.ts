import { describe, expect, test } from 'vitest'
import { readLlmRequest } from '../../test/support/llm/json-readers.ts'
import { type LlmRequest, LlmRequestReader } from './llm-request.ts'
import { withUsageRequest } from './usage-request.ts'

function asked(body: string): string | undefined {
  const bytes = Buffer.from(body)
  return withUsageRequest(bytes, readLlmRequest(bytes).streamOptionsAt!)?.toString()
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
    ['{"stream":true,"stream_options":{"include_usage":"true"}}', '{"stream":true,"stream_options":{"include_usage":true}}'],
  ])('%s becomes %s', (body, expected) => {
    expect(asked(body)).toBe(expected)
    expect(JSON.parse(expected)).toMatchObject({ stream: true })
  })

  test.each([
    ['asks already', '{"stream":true,"stream_options":{"include_usage":true}}'],
    ['has options of another form', '{"stream":true,"stream_options":[]}'],
    ['has options in its options', '{"stream":true,"stream_options":{"a":{}}}'],
    ['has a text for its options', '{"stream":true,"stream_options":"x"}'],
    ['has very long options', `{"stream":true,"stream_options":{"x":"${'x'.repeat(2000)}"}}`],
  ])('but not one that %s', (_what, body) => {
    expect(asked(body)).toBeUndefined()
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

  test('but not one that is not plain UTF-8', () => {
    expect(readLlmRequest('\ufeff{"stream":true}').streamOptionsAt).toBeUndefined()
    expect(readLlmRequest(Buffer.from('{"stream":true}', 'utf16le')).streamOptionsAt).toBeUndefined()
  })
})
