import { expect, test } from 'vitest'
import { parseHeaderTemplate } from './header-template.ts'

test.each([
  ['plain', ['plain'], []],
  ['Bearer {OPENAI_A}', ['Bearer ', { secret: 'OPENAI_A' }], ['OPENAI_A']],
  ['{A}{B2}{A}', [{ secret: 'A' }, { secret: 'B2' }, { secret: 'A' }], ['A', 'B2']],
  ['{{{A}}} {{x}}', ['{', { secret: 'A' }, '} {x}'], ['A']],
])('%s has its texts and secrets', (text, parts, names) => {
  expect(parseHeaderTemplate(text)).toEqual({ parts, names })
})

test.each(['{', '}', '{a}', '{1A}', '{A B}', '{}', 'x{A', 'A}', '{{A}', `{${'A'.repeat(129)}}`])('%s is no template', (text) => {
  expect(parseHeaderTemplate(text)).toBeUndefined()
})
