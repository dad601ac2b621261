import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  chargedTokens,
  chatUsage,
  chatUsageText,
  countTokens,
  hasUsage,
  MAX_TOKENS,
  newTally,
  readUsage,
  reservedTokens,
  shownCounts,
  type TokenCounts,
  tokenCounts,
} from './usage.ts'

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
    expect(counted(usage)).toMatchObject({ input: prompt, output: completion })
  })

  test('wins over the estimate where it is zero', () => {
    expect(counted({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })).toMatchObject({ input: 0, output: 0 })
    expect(counted({ input_tokens: 0, output_tokens: 0 })).toMatchObject({ input: 0, output: 0 })
  })

  test('leaves to the estimate what it does not name', () => {
    expect(counted({ output_tokens: 3 })).toMatchObject({ input: 100, output: 3 })
    expect(counted({ input_tokens: 7 })).toMatchObject({ input: 7, output: 50 })
    expect(counted({})).toMatchObject({ input: 100, output: 50 })
  })

  test('is not added to what was told before, and takes nothing of it back', () => {
    expect(counted({ input_tokens: 7, output_tokens: 1 }, { output_tokens: 3 }, { output_tokens: 9 })).toMatchObject({
      input: 7,
      output: 9,
    })
    expect(counted({ prompt_tokens: 5, completion_tokens: 9 }, { prompt_tokens: 6, completion_tokens: 0 })).toMatchObject({
      input: 6,
      output: 9,
    })
    const cached = { input_tokens: 5, cache_read_input_tokens: 40, cache_creation_input_tokens: 3 }
    const zeros = { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 2 }
    expect(counted(cached, zeros)).toMatchObject({ input: 48, cachedInput: 40, cacheWrite: 3, output: 2 })
    expect(counted(cached, { prompt_tokens: 7, prompt_tokens_details: { cached_tokens: 0 } })).toMatchObject({ input: 48 })
  })

  test('is not added to itself where a later event splits the same input in another way', () => {
    const split = { input_tokens: 10, cache_read_input_tokens: 50_000, output_tokens: 5 }
    const plain = { input_tokens: 50_010, output_tokens: 5 }
    expect(counted(plain, split)).toMatchObject({ input: 50_010, cachedInput: 50_000, output: 5 })
    expect(counted(split, { ...plain, cache_read_input_tokens: 0 })).toMatchObject({ input: 50_010, cachedInput: 50_000 })
    expect(counted(plain, { ...split, cache_read_input_tokens: 40_000 })).toMatchObject({ input: 50_010, cachedInput: 0 })
    expect(counted(split, { ...plain, input_tokens: 50_011, cache_read_input_tokens: 0 })).toMatchObject({ input: 50_011, cachedInput: 0 })
    expect(counted(split, plain)).toMatchObject({ input: 50_010, cachedInput: 50_000 })
    expect(counted(split, { prompt_tokens: 50_011 })).toMatchObject({ input: 50_011, cachedInput: 50_000 })
    expect(counted({ cache_read_input_tokens: 40 }, { input_tokens: 50 })).toMatchObject({ input: 90, cachedInput: 40 })
    expect(counted(split, { input_tokens: 12, output_tokens: 5 })).toMatchObject({ input: 50_012, cachedInput: 50_000 })
    const written = { input_tokens: 10, cache_creation_input_tokens: 20, cache_creation: { ephemeral_1h_input_tokens: 20 } }
    expect(counted(written, { input_tokens: 12, cache_creation_input_tokens: 20, output_tokens: 5 })).toMatchObject({
      ...{ input: 32, cacheWrite: 20, cacheWrite1h: 20 },
    })
    expect(counted({ input_tokens: 10 }, { cache_read_input_tokens: 40 }, { output_tokens: 5 })).toMatchObject({
      input: 50,
      cachedInput: 40,
    })
  })

  test('has cached and reasoning tokens in its sums already, but for those that Anthropic caches, which are added', () => {
    const chat = {
      prompt_tokens: 2006,
      completion_tokens: 300,
      total_tokens: 2306,
      prompt_tokens_details: { cached_tokens: 1920 },
      completion_tokens_details: { reasoning_tokens: 256 },
    }
    expect(counted(chat)).toMatchObject({ input: 2006, output: 300 })
    const anthropic = { input_tokens: 21, cache_creation_input_tokens: 188, cache_read_input_tokens: 500, output_tokens: 393 }
    expect(counted(anthropic)).toMatchObject({ input: 709, output: 393 })
  })

  test('costs its total where it tells nothing else', () => {
    expect(counted({ total_tokens: 30 })).toMatchObject({ input: 0, output: 30 })
  })

  test('costs the rest of its total where it tells the prompt alone', () => {
    expect(counted({ prompt_tokens: 10, total_tokens: 30 })).toMatchObject({ input: 10, output: 20 })
    expect(counted({ prompt_tokens: 40, total_tokens: 30 })).toMatchObject({ input: 40, output: 0 })
  })

  test('is not believed about a total that contradicts both of its parts', () => {
    expect(counted({ prompt_tokens: 7, completion_tokens: 3, total_tokens: 99 })).toMatchObject({ input: 7, output: 3 })
  })

  test.each([[-1], [1.5], ['7'], [null], [true], [[7]], [{ tokens: 7 }], [2 ** 53]])('is ignored where it says %j', (value) => {
    expect(counted({ prompt_tokens: value, completion_tokens: value, total_tokens: value })).toMatchObject({ input: 100, output: 50 })
    expect(counted({ prompt_tokens: value, completion_tokens: 4 })).toMatchObject({ input: 100, output: 4 })
    expect(counted({ prompt_tokens: 4, completion_tokens: value })).toMatchObject({ input: 4, output: 50 })
  })

  test.each([[undefined], [null], [7], ['usage'], [true], [[{ prompt_tokens: 7 }]]])('is no usage where it is %j', (value) => {
    expect(counted(value)).toMatchObject({ input: 100, output: 50 })
  })

  test('reads the other name where the first one is nonsense', () => {
    expect(counted({ prompt_tokens: null, input_tokens: 7, completion_tokens: 'x', output_tokens: 3 })).toMatchObject({
      input: 7,
      output: 3,
    })
  })
})

test('a tally has usage as soon as a provider names either count', () => {
  expect(hasUsage(newTally())).toBe(false)
  expect(hasUsage({ ...newTally(), promptTokens: 0 })).toBe(true)
  expect(hasUsage({ ...newTally(), completionTokens: 0 })).toBe(true)
})

test('the estimate is a quarter of all characters, rounded up once', () => {
  const completion = (characters: number): number => countTokens({ ...newTally(), characters }, 0).output
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
      { input: 9, cachedInput: 4, cacheWrite: 0, cacheWrite1h: 0 },
    ],
    [
      'Responses',
      { input_tokens: 9, output_tokens: 1, input_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 } },
      { input: 9, cachedInput: 4, cacheWrite: 2, cacheWrite1h: 0 },
    ],
    [
      'Anthropic',
      { input_tokens: 9, output_tokens: 1, cache_read_input_tokens: 40, cache_creation_input_tokens: 20 },
      { input: 69, cachedInput: 40, cacheWrite: 20, cacheWrite1h: 0 },
    ],
    [
      'Anthropic, for an hour',
      {
        input_tokens: 9,
        output_tokens: 1,
        cache_creation_input_tokens: 20,
        cache_creation: { ephemeral_5m_input_tokens: 5, ephemeral_1h_input_tokens: 15 },
      },
      { input: 29, cachedInput: 0, cacheWrite: 20, cacheWrite1h: 15 },
    ],
    [
      'Anthropic, by duration alone',
      { input_tokens: 9, output_tokens: 1, cache_creation: { ephemeral_5m_input_tokens: 5, ephemeral_1h_input_tokens: 15 } },
      { input: 29, cachedInput: 0, cacheWrite: 20, cacheWrite1h: 15 },
    ],
    [
      'a gateway that translates',
      { prompt_tokens: 69, completion_tokens: 1, cache_read_input_tokens: 40, cache_creation_input_tokens: 20 },
      { input: 69, cachedInput: 40, cacheWrite: 20, cacheWrite1h: 0 },
    ],
    ['nobody', { prompt_tokens: 9, completion_tokens: 1 }, { input: 9, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0 }],
    [
      'details without counts',
      { input_tokens: 9, output_tokens: 1, input_tokens_details: {} },
      { input: 9, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0 },
    ],
  ])('are read in the words of %s', (_, usage, counts) => {
    expect(counted(usage)).toEqual({ ...counts, output: 1 })
  })

  test.each([[-1], [1.5], [2 ** 53], ['4'], [null], [{}]])('are unknown where their number is %j', (cached) => {
    expect(counted({ prompt_tokens: 9, prompt_tokens_details: { cached_tokens: cached } })).toMatchObject({ input: 9, cachedInput: 0 })
    expect(counted({ input_tokens: 9, cache_read_input_tokens: cached })).toMatchObject({ input: 9, cachedInput: 0 })
  })

  test('are cumulative: a later number replaces an earlier one, and one that is not repeated stays', () => {
    const start = { input_tokens: 9, cache_read_input_tokens: 40, cache_creation_input_tokens: 20 }
    expect(counted(start, { output_tokens: 3 })).toMatchObject({ input: 69, cachedInput: 40, cacheWrite: 20 })
    const later = { output_tokens: 3, cache_read_input_tokens: 50 }
    expect(counted(start, later)).toMatchObject({ input: 79, cachedInput: 50, cacheWrite: 20 })
  })

  test('never exceed the input: those that do not fit are no cached tokens', () => {
    const counts = { input: 9, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 1 }
    expect(tokenCounts(9, 1, { cachedInput: 6, cacheWrite: 4, cacheWrite1h: 4 })).toEqual(counts)
    expect(tokenCounts(9, 1, { cachedInput: 6, cacheWrite: 3, cacheWrite1h: 4 })).toEqual({
      ...counts,
      cachedInput: 6,
      cacheWrite: 3,
      cacheWrite1h: 3,
    })
  })

  test('are not in what clients see of Anthropic, whose input_tokens does not include them', () => {
    const tally = newTally()
    readUsage({ input_tokens: 9, output_tokens: 3, cache_read_input_tokens: 40 }, tally)
    expect(shownCounts(tally, 100)).toEqual({ prompt: 9, completion: 3 })
  })
})

describe('weights', () => {
  const counts = tokenCounts(109, 7, { cachedInput: 50, cacheWrite: 9, cacheWrite1h: 4 })
  const weights = { input: 100, cachedInput: 10, cacheWrite: 125, output: 501 }

  test('are 1 for every token if there are none', () => {
    expect(chargedTokens(counts)).toBe(116)
    expect(reservedTokens(109, 7)).toBe(116)
  })

  test('apply to each kind of token, and the sum is rounded up once', () => {
    // 50 × 1 + 50 × 0.1 + 9 × 1.25 + 7 × 5.01 = 101.32
    expect(chargedTokens(counts, weights)).toBe(102)
  })

  test('reserve the prompt as the heaviest kind of input', () => {
    // 109 × 1.25 + 7 × 5.01 = 171.32
    expect(reservedTokens(109, 7, weights)).toBe(172)
    expect(reservedTokens(109, 7, { ...weights, cachedInput: 200 })).toBe(254)
  })

  test('are exact for any numbers, and the sum never exceeds what can be counted', () => {
    const weight = fc.integer({ min: 0, max: 10_000 })
    const tokens = fc.oneof(fc.nat(5000), fc.nat(MAX_TOKENS))
    fc.assert(
      fc.property(
        tokens,
        tokens,
        fc.record({ input: weight, cachedInput: weight, cacheWrite: weight, output: weight }),
        (input, output, by) => {
          const cachedInput = Math.floor(input / 3)
          const cacheWrite = Math.floor(input / 4)
          const sum = (plain: number, cached: number, written: number, rate: number): bigint =>
            BigInt(plain) * BigInt(rate) + BigInt(cached) * BigInt(by.cachedInput) + BigInt(written) * BigInt(by.cacheWrite)
          const bounded = (hundredths: bigint): number =>
            Number([(hundredths + 99n) / 100n, BigInt(MAX_TOKENS)].toSorted((a, b) => (a < b ? -1 : 1))[0])
          const out = BigInt(output) * BigInt(by.output)
          expect(chargedTokens(tokenCounts(input, output, { cachedInput, cacheWrite }), by)).toBe(
            bounded(sum(input - cachedInput - cacheWrite, cachedInput, cacheWrite, by.input) + out),
          )
          const heaviest = Math.max(by.input, by.cachedInput, by.cacheWrite)
          expect(reservedTokens(input, output, by)).toBe(bounded(BigInt(input) * BigInt(heaviest) + out))
        },
      ),
    )
  })
})
