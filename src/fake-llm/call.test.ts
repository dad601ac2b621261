import { expect, test } from 'vitest'
import { promptTokens, textTokens } from './call.ts'

test.each([
  ['nothing', {}, 0],
  ['text of no model', { user: 'somebody', tools: [{ description: 'x' }] }, 0],
  ['messages', { messages: [{ role: 'user', content: '12345' }] }, 2],
  [
    'text parts, and no others',
    {
      messages: [
        {
          content: [
            { type: 'text', text: '1234' },
            { type: 'image_url', image_url: { url: 'x' } },
          ],
        },
      ],
    },
    1,
  ],
  ['one rounding over all', { system: '1', messages: [{ content: '2' }, { content: '3' }] }, 1],
  ['instructions and input', { instructions: '1234', input: [{ content: [{ type: 'input_text', text: '5678' }] }] }, 2],
  ['code points, not UTF-16 units', { prompt: '🦊🦊🦊🦊' }, 1],
  ['token numbers', { prompt: [11, 12, 13] }, 3],
  ['several prompts', { prompt: ['1234', '5'] }, 2],
  ['null', { messages: [{ content: null }, null], system: null }, 0],
])('prompt tokens: %s', (_what, asked, tokens) => {
  expect(promptTokens(asked)).toBe(tokens)
})

test("the text of Gemini's contents is in their parts", () => {
  const contents = [{ role: 'user', parts: [{ text: '1234' }, { inlineData: { data: 'x' } }] }, { parts: { text: '5' } }]
  expect(textTokens([contents, undefined])).toBe(2)
})
