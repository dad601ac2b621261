import fc from 'fast-check'
import { expect, test } from 'vitest'
import { HEADER_TEMPLATE, parseHeaderTemplate, renderHeader } from './header-template.ts'

const SECRETS = { valueOf: (name: string) => `<${name}>` }

function rendered(text: string): string | undefined {
  const template = parseHeaderTemplate(text)
  return template && renderHeader(template, SECRETS)
}

test.each([
  ['Bearer {OPENAI_A}', 'Bearer <OPENAI_A>'],
  ['{A}', '<A>'],
  ['{A}{A}:{B2_}', '<A><A>:<B2_>'],
  ['plain', 'plain'],
  ['', ''],
  ['{{A}}', '{A}'],
  ['{{{A}}}', '{<A>}'],
  ['{{"a":1}}', '{"a":1}'],
  [`{${'A'.repeat(128)}}`, `<${'A'.repeat(128)}>`],
])('%j becomes %j', (text, value) => {
  expect(rendered(text)).toBe(value)
})

test.each([
  '{',
  '}',
  '{A',
  'A}',
  '{}',
  '{a}',
  '{1A}',
  '{_A}',
  '{A-B}',
  '{ A }',
  '{A}}',
  '{{A}',
  '{"a":1}',
  `{${'A'.repeat(129)}}`,
  '{A}{A}{A}{A}{A}',
])('%j is no template', (text) => {
  expect(parseHeaderTemplate(text)).toBeUndefined()
})

test('a template names each of its secrets once, in their order', () => {
  expect(parseHeaderTemplate('{B}{A}{B}')!.names).toEqual(['B', 'A'])
})

test('a template has as many secrets as the sentence about templates says, and no more', () => {
  const most = Number(/at most (\d+) secrets/.exec(HEADER_TEMPLATE)![1])
  expect(rendered('{A}'.repeat(most))).toBe('<A>'.repeat(most))
  expect(rendered('{A}'.repeat(most + 1))).toBeUndefined()
})

test('whatever texts and secrets are put together come out as they went in', () => {
  const text = fc.string().map((literal) => ({ source: literal.replaceAll(/[{}]/g, '$&$&'), value: literal }))
  const secret = fc.stringMatching(/^[A-Z][A-Z0-9_]{0,8}$/).map((name) => ({ source: `{${name}}`, value: `<${name}>` }))
  const pieces = fc
    .tuple(fc.array(text, { maxLength: 5 }), fc.array(secret, { maxLength: 4 }))
    .chain(([texts, secrets]) => fc.shuffledSubarray([...texts, ...secrets]))
  fc.assert(
    fc.property(pieces, (parts) => {
      expect(rendered(parts.map(({ source }) => source).join(''))).toBe(parts.map(({ value }) => value).join(''))
    }),
  )
})

test('a secret with braces is inserted as it is', () => {
  expect(renderHeader(parseHeaderTemplate('{A}{B}')!, { valueOf: (name) => (name === 'A' ? '{B}' : '}}') })).toBe('{B}}}')
})
