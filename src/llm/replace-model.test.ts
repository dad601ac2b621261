import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyText } from '../../test/support/random/any-text.ts'
import { normalizePath } from '../text/path.ts'
import { endpointOf } from './endpoints.ts'
import { type LlmRequest, LlmRequestReader } from './llm-request.ts'
import { withModel } from './replace-model.ts'

const CHAT = '/v1/chat/completions'
const GEMINI = '/v1beta/models/gemini-a:generateContent'

function replaced(target: string, body: string | Buffer, model = 'new', isPlain = true): string | readonly [string, string] {
  const bytes = Buffer.from(body as string)
  const reader = new LlmRequestReader('utf8', endpointOf(normalizePath(target)))
  reader.push(bytes, 0, bytes.length)
  const llm = reader.end()
  if (typeof llm === 'string') return llm
  const result = withModel({ target, body: bytes, isPlain, llm }, model)
  return typeof result === 'string' ? result : [result.target, Buffer.concat(result.pieces).toString()]
}

describe('in a body', () => {
  test.each([
    ['{"model":"old"}', '{"model":"new"}'],
    [
      ' {\n "a" : [1.0, 1e2] , "model"\t:\r\n "old" , "b":"\\u0041" }\n',
      ' {\n "a" : [1.0, 1e2] , "model"\t:\r\n "new" , "b":"\\u0041" }\n',
    ],
    ['{"mod\\u0065l":"old"}', '{"mod\\u0065l":"new"}'],
    ['{"model":"o\\"ld\\\\"}', '{"model":"new"}'],
    ['{"model":""}', '{"model":"new"}'],
    ['{"x":{"model":"x"},"model":"old","y":"\\"model\\":\\"y\\""}', '{"x":{"model":"x"},"model":"new","y":"\\"model\\":\\"y\\""}'],
    ['\ufeff{"é":"😀","model":"😀"}', '\ufeff{"é":"😀","model":"new"}'],
  ])('%j becomes %j', (body, expected) => {
    expect(replaced(CHAT, body)).toEqual([CHAT, expected])
  })

  test.each([
    ['has no model', '{"messages":[]}'],
    ['has one in an inner object only', '{"x":{"model":"old"}}'],
    ['has none', '{"model":null}'],
    ['has a number', '{"model":1}'],
    ['has a list', '{"model":["old"]}'],
    ['has a longer one than is read', `{"model":"${'x'.repeat(257)}"}`],
    ['is a list', '[{"model":"old"}]'],
    ['is no JSON', '{"model":"old"'],
    ['is empty', ''],
    ['is in UTF-16', Buffer.from('{"model":"old"}', 'utf16le')],
  ])('no model is replaced if it %s', (_what, body) => {
    expect(replaced(CHAT, body)).toBe('model_not_replaceable')
  })

  test('no model is replaced if the body is compressed', () => {
    expect(replaced(CHAT, '{"model":"old"}', 'new', false)).toBe('model_not_replaceable')
  })

  test.each([
    ['{"model":"a","model":"b"}', 'repeated_descriptor'],
    ['{"model":"a","mod\\u0065l":"a"}', 'repeated_descriptor'],
    ['{"model":"a","Model":"b"}', 'bad_request'],
  ])('%j was refused before', (body, reason) => {
    expect(replaced(CHAT, body)).toBe(reason)
  })

  test('a large body is not copied: its pieces are parts of it, but for the name', () => {
    const body = Buffer.from(`{"x":"${'x'.repeat(1_000_000)}","model":"old","y":"${'y'.repeat(1_000_000)}"}`)
    const reader = new LlmRequestReader()
    reader.push(body, 0, body.length)
    const result = withModel({ target: CHAT, body, isPlain: true, llm: reader.end() as LlmRequest }, 'new')
    const { pieces } = result as { readonly pieces: readonly Buffer[] }
    expect(pieces.map((piece) => (piece.buffer === body.buffer ? piece.length : piece.toString()))).toEqual([1_000_016, '"new"', 1_000_008])
  })

  test('a model of any characters is one JSON text', () => {
    const model = 'a"b\\c\u2028é😀\ud800'
    const [, body] = replaced(CHAT, '{"model":"old"}', model) as [string, string]
    expect(JSON.parse(body)).toEqual({ model })
  })

  test('JSON.parse finds the new model and everything else as it was, however the body is written and cut', () => {
    const text = anyText().map((value) => JSON.stringify(value))
    const escaped = fc.string({ maxLength: 5 }).map((value) => `"${Array.from(value, unitEscape).join('')}"`)
    const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/)
    const value = fc.oneof(text, escaped, fc.json())
    const member = fc.tuple(fc.oneof(text, escaped), value).filter(([name]) => !/^(model|metadata)$/i.test(JSON.parse(name) as string))
    const modelName = fc.constantFrom('"model"', '"\\u006dodel"', '"mo\\u0064e\\u006C"')
    const body = fc.tuple(
      fc.array(member, { maxLength: 4 }),
      fc.nat(4),
      modelName,
      fc.oneof(text, escaped),
      fc.array(space, { minLength: 24, maxLength: 24 }),
    )
    fc.assert(
      fc.property(body, fc.string(), fc.nat(), ([members, at, name, old, spaces], model, cut) => {
        let i = 0
        const gap = (): string => spaces[i++ % spaces.length]!
        const written = ([key, each]: readonly [string, string]): string => `${gap()}${key}${gap()}:${gap()}${each}${gap()}`
        const before = `${gap()}{${members
          .slice(0, at)
          .map((each) => `${written(each)},`)
          .join('')}${gap()}${name}${gap()}:${gap()}`
        const after = `${gap()}${members
          .slice(at)
          .map((each) => `,${written(each)}`)
          .join('')}}${gap()}`
        const source = `${before}${old}${after}`
        const bytes = Buffer.from(source)
        const reader = new LlmRequestReader()
        const cutAt = cut % (bytes.length + 1)
        reader.push(bytes, 0, cutAt)
        reader.push(bytes, cutAt, bytes.length)
        const llm = reader.end()
        // A name may be one that rules read, which may not be repeated or be in another case.
        fc.pre(typeof llm === 'object' && llm.model !== undefined)
        const result = withModel({ target: CHAT, body: bytes, isPlain: true, llm: llm as LlmRequest }, model)
        const changed = Buffer.concat((result as { readonly pieces: readonly Buffer[] }).pieces).toString()
        expect(changed).toBe(`${before}${JSON.stringify(model)}${after}`)
        expect(JSON.parse(changed)).toEqual({ ...(JSON.parse(source) as object), model })
      }),
    )
  })
})

describe('in a path', () => {
  test.each([
    [GEMINI, '/v1beta/models/new:generateContent'],
    ['/v1beta/models/a:streamGenerateContent?alt=sse&x=models/a:y', '/v1beta/models/new:streamGenerateContent?alt=sse&x=models/a:y'],
    ['/v1beta/models/a%3AgenerateContent', '/v1beta/models/new%3AgenerateContent'],
    ['//v1beta/models/%67emini:generateContent/', '//v1beta/models/new:generateContent/'],
    ['/v1/publishers/anthropic/models/a@1:rawPredict', '/v1/publishers/anthropic/models/new:rawPredict'],
    ['/openai/deployments/a/chat/completions?api-version=1', '/openai/deployments/new/chat/completions?api-version=1'],
    ['/OpenAI/Deployments/a/b/embeddings', '/OpenAI/Deployments/new/embeddings'],
    ['/openai/deployments/a/images/generations', '/openai/deployments/new/images/generations'],
    ['/v1/projects/p/locations/l/endpoints/1/chat/completions', '/v1/projects/p/locations/l/endpoints/new/chat/completions'],
  ])('%s becomes %s', (target, expected) => {
    expect(replaced(target, '{"contents":[]}')).toEqual([expected, '{"contents":[]}'])
  })

  test.each([
    ['a@2', 'a@2'],
    ['ft:a', 'ft%3Aa'],
    ['é', '%C3%A9'],
  ])('the model %j is written as %j', (model, segment) => {
    expect(replaced(GEMINI, '{}', model)).toEqual([`/v1beta/models/${segment}:generateContent`, '{}'])
  })

  test.each(['a/b', 'a b', 'a?b', '..', 'a%2Fb', 'a\nb', '', 'a;b', `${'x'.repeat(257)}`])('the model %j can be in no path', (model) => {
    expect(replaced(GEMINI, '{}', model)).toBe('model_not_replaceable')
  })

  test('a model that would make it another request is not put there', () => {
    expect(replaced('/v1/publishers/anthropic/models/a:rawPredict', '{}', 'count-tokens')).toBe('model_not_replaceable')
    expect(replaced('/v1/publishers/google/models/text-embedding:predict', '{}', 'imagen')).toBe('model_not_replaceable')
  })

  test('the name in the body follows where providers read it, with its resource', () => {
    expect(replaced(GEMINI, '{"model":"models/gemini-a","contents":[]}')).toEqual([
      '/v1beta/models/new:generateContent',
      '{"model":"models/new","contents":[]}',
    ])
    const batch = '/v1beta/models/a:batchEmbedContents'
    const embedding = (model: string): string =>
      `{"requests":[{"model":"models/${model}"},{"model": "models/${model}","content":{}},{"model":null}]}`
    expect(replaced(batch, embedding('a'))).toEqual(['/v1beta/models/new:batchEmbedContents', embedding('new')])
    expect(replaced(batch, '{"model":"","requests":[]}')).toEqual(['/v1beta/models/new:batchEmbedContents', '{"model":"","requests":[]}'])
  })

  test('the body stays where providers ignore its model', () => {
    const azure = '/openai/deployments/a/chat/completions'
    expect(replaced(azure, '{"model":"any"}')).toEqual(['/openai/deployments/new/chat/completions', '{"model":"any"}'])
    expect(replaced(azure, 'compressed', 'new', false)).toEqual(['/openai/deployments/new/chat/completions', 'compressed'])
  })

  test('a body that is compressed or unreadable and may name the model stops it', () => {
    expect(replaced(GEMINI, '{"model":"gemini-a"}', 'new', false)).toBe('model_not_replaceable')
    expect(replaced(GEMINI, 'not JSON')).toBe('model_not_replaceable')
    expect(replaced(GEMINI, '{"contents":[]}', 'new', false)).toEqual(['/v1beta/models/new:generateContent', '{"contents":[]}'])
    expect(replaced(GEMINI, '')).toEqual(['/v1beta/models/new:generateContent', ''])
  })

  test('more names than any batch has stop it', () => {
    const many = (count: number): string => `{"requests":[${Array.from({ length: count }, () => '{"model":"a"}').join(',')}]}`
    const batch = '/v1beta/models/a:batchEmbedContents'
    expect(replaced(batch, many(1000))).toEqual(['/v1beta/models/new:batchEmbedContents', many(1000).replaceAll('"a"', '"new"')])
    expect(replaced(batch, many(1001))).toBe('model_not_replaceable')
  })

  test('a number for a name stops it', () => {
    expect(replaced('/v1beta/models/a:batchEmbedContents', '{"requests":[{"model":1}]}')).toBe('model_not_replaceable')
  })
})

function unitEscape(character: string): string {
  return Array.from({ length: character.length }, (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
}
