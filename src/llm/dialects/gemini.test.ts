import { describe, expect, test } from 'vitest'
import { parseSse } from '../../../test/support/llm/llm-streams.ts'
import { countTokens, newTally, type Tally } from '../usage.ts'
import type { Closing } from './dialect.ts'
import { StreamDialects } from './dialect-of.ts'
import { GeminiDialect, readGeminiUsage } from './gemini.ts'

type Event = Record<string, unknown>

function says(text: string, more: Event = {}): Event {
  return { candidates: [{ content: { parts: [{ text }], role: 'model' }, ...more }] }
}

function tallyOf(...events: readonly Event[]): Tally {
  const [dialect, tally] = [new GeminiDialect(), newTally()]
  for (const event of events) {
    dialect.read(event, tally)
    dialect.remember(event)
  }
  return tally
}

function closing(events: readonly Event[], how: Closing = 'graceful_close', hasUsage = true): unknown[] {
  const dialect = new GeminiDialect()
  for (const event of events) {
    dialect.read(event, newTally())
    dialect.remember(event)
  }
  return parseSse(dialect.closing(how, { prompt: 11, completion: 31 }, hasUsage)).map(({ data }) => JSON.parse(data))
}

describe('an event of Gemini', () => {
  test.each([
    [says('')],
    [{ candidates: [] }],
    [{ usageMetadata: {} }],
    [{ usage_metadata: { total_token_count: 1 } }],
    [{ promptFeedback: { blockReason: 'SAFETY' } }],
  ])('is recognised: %j', (event) => {
    expect(new StreamDialects().of(event)).toBeInstanceOf(GeminiDialect)
  })

  test.each([
    ['text', { text: 'Hello' }, 5],
    ['thoughts', { text: 'Hm', thought: true }, 2],
    ['code points', { text: '😀é' }, 2],
    ['a call', { functionCall: { name: 'f', args: { a: 1 } } }, 27],
    ['a call in snake_case', { function_call: { name: 'f' } }, 12],
    ['code', { executableCode: { code: 'x' } }, 12],
    ['no pictures', { inlineData: { data: 'abcd' } }, 0],
    ['nothing that is no text', { text: 5, functionCall: {} }, 0],
    ['nothing without a part', null, 0],
  ])('counts %s', (_, part, characters) => {
    expect(tallyOf({ candidates: [{ content: { parts: [part] } }] }).characters).toBe(characters)
  })

  test('counts all candidates and all parts', () => {
    const candidates = [{ content: { parts: [{ text: 'ab' }, { text: 'c' }] } }, { index: 1, content: { parts: [{ text: 'd' }] } }]
    expect(tallyOf({ candidates }, says('e')).characters).toBe(5)
  })

  test('names the model that responds', () => {
    expect(tallyOf({ ...says('a'), modelVersion: 'models/gemini-2.5-pro-001' }).model).toBe('gemini-2.5-pro-001')
    expect(tallyOf({ ...says('a'), model_version: 'x' }, { ...says('a'), modelVersion: 'y' }).model).toBe('x')
  })

  test('may be an error', () => {
    expect(new GeminiDialect().read({ error: { code: 500 } }, newTally())).toBe('error')
    expect(new GeminiDialect().read(says('a'), newTally())).toBe('content')
  })
})

describe('the usage of Gemini', () => {
  test.each([
    ['a total', { promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 7, totalTokenCount: 22 }, { input: 10, output: 12 }],
    ['a total with hidden thoughts', { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 40 }, { input: 10, output: 30 }],
    ['no total', { promptTokenCount: 10, candidatesTokenCount: 5, thoughtsTokenCount: 7 }, { input: 10, output: 12 }],
    ['what tools found', { promptTokenCount: 10, toolUsePromptTokenCount: 4, totalTokenCount: 20 }, { input: 14, output: 6 }],
    ['cached content', { promptTokenCount: 10, cachedContentTokenCount: 8, totalTokenCount: 12 }, { input: 10, cachedInput: 8, output: 2 }],
    [
      'more cached than prompted',
      { promptTokenCount: 10, cachedContentTokenCount: 11, totalTokenCount: 12 },
      { input: 10, cachedInput: 0 },
    ],
    ['snake_case', { prompt_token_count: 10, candidates_token_count: 5 }, { input: 10, output: 5 }],
    ['numbers as texts', { promptTokenCount: '10', totalTokenCount: '15' }, { input: 10, output: 5 }],
    ['a total below the prompt', { promptTokenCount: 10, candidatesTokenCount: 3, totalTokenCount: 5 }, { input: 10, output: 3 }],
    ['the prompt alone', { promptTokenCount: 10 }, { input: 10, output: 0 }],
    ['nothing', { trafficType: 'ON_DEMAND' }, { input: 100, output: 0 }],
    ['nonsense', { promptTokenCount: -1, totalTokenCount: 'x', candidatesTokenCount: 1.5 }, { input: 100, output: 0 }],
  ])('is read: %s', (_, usage, counts) => {
    const tally = newTally()
    readGeminiUsage(usage, tally)
    expect(countTokens(tally, 100)).toMatchObject(counts)
  })

  test('is cumulative, and believed to the last where the text has ended', () => {
    const last = {
      ...says('abcd', { finishReason: 'STOP' }),
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1, totalTokenCount: 4 },
    }
    const first = { ...says('x'.repeat(400)), usageMetadata: { promptTokenCount: 3, totalTokenCount: 3 } }
    expect(countTokens(tallyOf(first), 100)).toMatchObject({ input: 3, output: 100 })
    expect(countTokens(tallyOf(first, last), 100)).toMatchObject({ input: 3, output: 1 })
    expect(countTokens(tallyOf(first, last, says('x'.repeat(40))), 100)).toMatchObject({ output: 111 })
  })

  test('may come after the last text', () => {
    const usage = { usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1 } }
    expect(countTokens(tallyOf(says('x'.repeat(400), { finishReason: 'STOP' }), usage), 9)).toMatchObject({ input: 3, output: 1 })
  })
})

describe('a stream of Gemini that is cut', () => {
  const usageMetadata = { promptTokenCount: 11, candidatesTokenCount: 31, totalTokenCount: 42 }
  const content = { parts: [{ text: '' }], role: 'model' }

  test('ends as if the model had reached its limit', () => {
    const events = [{ ...says('a'), modelVersion: 'gemini-x', responseId: 'r1' }]
    const candidates = [{ content, finishReason: 'MAX_TOKENS', index: 0 }]
    expect(closing(events)).toEqual([{ candidates, usageMetadata, modelVersion: 'gemini-x', responseId: 'r1' }])
    expect(closing([], 'graceful_close', false)).toEqual([{ candidates }])
  })

  test('closes each candidate that the client has not seen the end of', () => {
    const events = [says('a'), says('b', { index: 2 }), says('c', { index: 1, finishReason: 'STOP' })]
    const open = [0, 2].map((index) => ({ content, finishReason: 'MAX_TOKENS', index }))
    expect(closing(events, 'graceful_close', false)).toEqual([{ candidates: open }])
  })

  test('ends with an error in the words of Google, where the rule says so or its caller is blocked', () => {
    const exceeded = { code: 429, message: 'max completion tokens exceeded', status: 'RESOURCE_EXHAUSTED' }
    expect(closing([says('a')], 'error_chunk')).toEqual([{ error: exceeded, usageMetadata }])
    expect(closing([says('a')], 'error_chunk', false)).toEqual([{ error: exceeded }])
    const blocked = { code: 403, message: 'access is blocked', status: 'PERMISSION_DENIED' }
    expect(closing([], 'blocked', false)).toEqual([{ error: blocked }])
  })
})
