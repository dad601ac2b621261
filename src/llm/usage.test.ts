import { describe, expect, test } from 'vitest'
import { chatUsage, chatUsageText, countTokens, hasUsage, newTally, readUsage, type TokenCounts } from './usage.ts'

/** What is counted after these usage objects, where the estimates are 100 for the prompt and 50 for the completion. */
function counted(...usages: unknown[]): TokenCounts {
  const tally = newTally()
  tally.characters = 200
  for (const usage of usages) readUsage(usage, tally)
  return countTokens(tally, 100)
}

describe('usage that a provider tells', () => {
  test.each([
    ['chat', { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 }, 7, 3],
    ['Responses', { input_tokens: 7, output_tokens: 3, total_tokens: 10 }, 7, 3],
    ['Anthropic', { input_tokens: 7, output_tokens: 3 }, 7, 3],
    ['embeddings', { prompt_tokens: 8, total_tokens: 8 }, 8, 0],
  ])('is read in the words of %s', (_, usage, prompt, completion) => {
    expect(counted(usage)).toEqual({ prompt, completion })
  })

  test('wins over the estimate where it is zero', () => {
    expect(counted({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })).toEqual({ prompt: 0, completion: 0 })
    expect(counted({ input_tokens: 0, output_tokens: 0 })).toEqual({ prompt: 0, completion: 0 })
  })

  test('leaves to the estimate what it does not name', () => {
    expect(counted({ output_tokens: 3 })).toEqual({ prompt: 100, completion: 3 })
    expect(counted({ input_tokens: 7 })).toEqual({ prompt: 7, completion: 50 })
    expect(counted({})).toEqual({ prompt: 100, completion: 50 })
  })

  test('replaces what was told before and is not added to it', () => {
    expect(counted({ input_tokens: 7, output_tokens: 1 }, { output_tokens: 3 }, { output_tokens: 9 })).toEqual({ prompt: 7, completion: 9 })
    expect(counted({ prompt_tokens: 5, completion_tokens: 9 }, { prompt_tokens: 6, completion_tokens: 0 })).toEqual({
      prompt: 6,
      completion: 0,
    })
  })

  test('has cached and reasoning tokens in its sums already', () => {
    const chat = {
      prompt_tokens: 2006,
      completion_tokens: 300,
      total_tokens: 2306,
      prompt_tokens_details: { cached_tokens: 1920 },
      completion_tokens_details: { reasoning_tokens: 256 },
    }
    expect(counted(chat)).toMatchObject({ prompt: 2006, completion: 300 })
    const anthropic = { input_tokens: 21, cache_creation_input_tokens: 188, cache_read_input_tokens: 500, output_tokens: 393 }
    expect(counted(anthropic)).toMatchObject({ prompt: 21, completion: 393 })
  })

  test('costs its total where it tells nothing else', () => {
    expect(counted({ total_tokens: 30 })).toEqual({ prompt: 0, completion: 30 })
  })

  test('costs the rest of its total where it tells the prompt alone', () => {
    expect(counted({ prompt_tokens: 10, total_tokens: 30 })).toEqual({ prompt: 10, completion: 20 })
    expect(counted({ prompt_tokens: 40, total_tokens: 30 })).toEqual({ prompt: 40, completion: 0 })
  })

  test('is not believed about a total that contradicts both of its parts', () => {
    expect(counted({ prompt_tokens: 7, completion_tokens: 3, total_tokens: 99 })).toEqual({ prompt: 7, completion: 3 })
  })

  test.each([[-1], [1.5], ['7'], [null], [true], [[7]], [{ tokens: 7 }], [2 ** 53]])('is ignored where it says %j', (value) => {
    expect(counted({ prompt_tokens: value, completion_tokens: value, total_tokens: value })).toEqual({ prompt: 100, completion: 50 })
    expect(counted({ prompt_tokens: value, completion_tokens: 4 })).toEqual({ prompt: 100, completion: 4 })
    expect(counted({ prompt_tokens: 4, completion_tokens: value })).toEqual({ prompt: 4, completion: 50 })
  })

  test.each([[undefined], [null], [7], ['usage'], [true], [[{ prompt_tokens: 7 }]]])('is no usage where it is %j', (value) => {
    expect(counted(value)).toEqual({ prompt: 100, completion: 50 })
  })

  test('reads the other name where the first one is nonsense', () => {
    expect(counted({ prompt_tokens: null, input_tokens: 7, completion_tokens: 'x', output_tokens: 3 })).toEqual({
      prompt: 7,
      completion: 3,
    })
  })
})

test('a tally has usage as soon as a provider names either count', () => {
  expect(hasUsage(newTally())).toBe(false)
  expect(
    hasUsage({ characters: 9, promptTokens: 0, completionTokens: undefined, countedCharacters: 0, cache: undefined, model: undefined }),
  ).toBe(true)
  expect(
    hasUsage({ characters: 9, promptTokens: undefined, completionTokens: 0, countedCharacters: 0, cache: undefined, model: undefined }),
  ).toBe(true)
})

test('the estimate is a quarter of all characters, rounded up once', () => {
  const completion = (characters: number): number => countTokens({ ...newTally(), characters }, 0).completion
  expect([0, 1, 4, 5, 8].map(completion)).toEqual([0, 1, 1, 2, 2])
})

test('the usage object of a chunk is the same as text and as data', () => {
  const counts = { prompt: 12, completion: 34 }
  expect(chatUsage(counts)).toEqual({ prompt_tokens: 12, completion_tokens: 34, total_tokens: 46 })
  expect(chatUsageText(counts)).toBe(JSON.stringify(chatUsage(counts)))
})

describe('cached prompt tokens', () => {
  test.each([
    [
      'chat',
      { prompt_tokens: 9, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 4 } },
      { read: 4, written: 0, isInPrompt: true },
    ],
    [
      'Responses',
      { input_tokens: 9, output_tokens: 1, input_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 } },
      { read: 4, written: 2, isInPrompt: true },
    ],
    [
      'Anthropic',
      { input_tokens: 9, output_tokens: 1, cache_read_input_tokens: 40, cache_creation_input_tokens: 20 },
      { read: 40, written: 20, isInPrompt: false },
    ],
    [
      'a gateway that translates',
      { prompt_tokens: 69, completion_tokens: 1, cache_read_input_tokens: 40, cache_creation_input_tokens: 20 },
      { read: 40, written: 20, isInPrompt: true },
    ],
    ['nobody', { prompt_tokens: 9, completion_tokens: 1 }, undefined],
    ['details without counts', { input_tokens: 9, output_tokens: 1, input_tokens_details: {} }, undefined],
  ])('are read in the words of %s, beside what token budgets count', (_, usage, cache) => {
    const { prompt, completion, cache: found } = counted(usage)
    expect(found).toEqual(cache)
    expect([prompt, completion]).toEqual(['prompt_tokens' in usage ? usage.prompt_tokens : usage.input_tokens, 1])
  })

  test.each([[-1], [1.5], [2 ** 53], ['4'], [null], [{}]])('are unknown where their number is %j', (cached) => {
    expect(counted({ prompt_tokens: 9, prompt_tokens_details: { cached_tokens: cached } }).cache).toBeUndefined()
    expect(counted({ input_tokens: 9, cache_read_input_tokens: cached }).cache).toBeUndefined()
  })

  test('are cumulative: a later number replaces an earlier one, and one that is not repeated stays', () => {
    const start = { input_tokens: 9, cache_read_input_tokens: 40, cache_creation_input_tokens: 20 }
    expect(counted(start, { output_tokens: 3 }).cache).toEqual({ read: 40, written: 20, isInPrompt: false })
    expect(counted(start, { output_tokens: 3, cache_read_input_tokens: 50 }).cache).toEqual({ read: 50, written: 20, isInPrompt: false })
  })
})
