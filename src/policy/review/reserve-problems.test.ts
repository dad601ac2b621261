import { describe, expect, test } from 'vitest'
import { budgetRule, llmRule } from '../../../test/support/bundles/bundles.ts'
import { problemsOf } from '../../../test/support/bundles/compiled-rule.ts'

const tokens = (config: object): object => llmRule('r', [], { tokens_per_day: 100_000, ...config })
const money = (config: object): object => budgetRule('r', [], { budget: 5, ...config })
const errorsOf = (rule: object): string[] => problemsOf(rule).errors.map((text) => text.replace(/^.*algorithm_config\./, ''))

describe('reserve', () => {
  test.each([
    [{ reserve: {} }],
    [{ reserve: { first: 100, step: 100 } }],
    [{ reserve: { first: 1_000_000, step: 1_000_000 }, streaming: { enabled: true, enforce_mid_stream: true }, count: { output: 0.01 } }],
  ])('goes with a daily budget whose streams are cut: %j', (config) => {
    expect(errorsOf(tokens(config))).toEqual([])
  })

  test.each<[object, ...string[]]>([
    [{ reserve: true }, 'reserve: expected an object with first and step, or {} for 2000 and 1000, got true'],
    [{ reserve: { step: 99 } }, 'reserve.step: expected a whole number of completion tokens, from 100 to 1000000, got 99'],
    [
      { reserve: { first: 2_000_000, step: 1_000_001 } },
      'reserve.step: expected a whole number of completion tokens, from 100 to 1000000, got 1000001',
    ],
    [
      { reserve: { step: 3000 } },
      'reserve.first: expected a number no lower than step (first is 2000 and step 1000 if left out), but it is missing',
    ],
    [
      { reserve: {}, tokens_per_day: undefined, tokens_per_minute: 5000 },
      'reserve: expected tokens_per_day beside it, because only a daily budget ends a stream: set one, or remove reserve',
    ],
    [
      { reserve: {}, streaming: { enabled: false } },
      'streaming.enabled: expected true with reserve, which cuts streams where the budget ends: remove this field, or reserve',
    ],
    [
      { reserve: {}, streaming: { enforce_mid_stream: false } },
      'streaming.enforce_mid_stream: expected true with reserve, which cuts streams where the budget ends: remove this field, or reserve',
    ],
    [
      { reserve: {}, count: { output: 0 } },
      'count.output: expected a weight above 0 with reserve, because streams that count nothing never grow: set one, or remove reserve',
    ],
    [{ reserve: { step: 150.5 } }, 'reserve.step: expected a whole number of completion tokens, from 100 to 1000000, got 150.5'],
    [{ reserve: { steps: 200 } }, 'reserve: unknown field "steps": did you mean "step"?'],
    [
      { count: { output: 100.5, input: 1.005 } },
      'count.input: expected how much such a token counts, a number from 0 to 100 with at most 2 decimals (1 counts it once), got 1.005',
      'count.output: expected how much such a token counts, a number from 0 to 100 with at most 2 decimals (1 counts it once), got 100.5',
    ],
    [
      { count: 2 },
      'count: expected an object with input, cached_input, cache_write or output (leave count out to count every token once), got 2',
    ],
    [{ without_usage: 'reservation' }, 'without_usage: expected "estimate" or "keep", got "reservation"'],
    [{ streaming: { ask_usage: 1 } }, 'streaming.ask_usage: expected true or false, got 1'],
  ])('of a token budget is refused: %j', (config, ...problem) => {
    expect(errorsOf(tokens(config)).sort()).toEqual(problem)
  })

  test.each<[object, string]>([
    [
      { cost: { header: 'x-cost', default: 1 }, reserve: {} },
      'reserve: expected prices beside it, because a cost in a header does not grow with the response: set prices, or remove reserve',
    ],
    [
      { cost: { header: 'x-cost', default: 1 }, streaming: { on_limit_exceeded: 'error_chunk' } },
      'streaming.on_limit_exceeded: expected reserve beside streaming: without it a budget of money never cuts a stream. Add reserve: {}, or remove this field',
    ],
    [
      { cost: { header: 'x-cost', default: 1 }, streaming: { include_partial_usage: false } },
      'streaming.include_partial_usage: expected reserve beside streaming: without it a budget of money never cuts a stream. Add reserve: {}, or remove this field',
    ],
    [
      { cost: { header: 'x-cost', default: 1 }, streaming: { enabled: false } },
      'streaming: unknown field "enabled": only token_bucket_llm has it in its streaming, remove it',
    ],
    [
      { cost: { header: 'x-cost', default: 1 }, streaming: { buffer_tokens: 5 } },
      'streaming: unknown field "buffer_tokens": only token_bucket_llm has it in its streaming, remove it',
    ],
    [
      { cost: { header: 'x-cost', default: 1 }, count: { output: 2 } },
      'algorithm_config: unknown field "count": only token_bucket_llm has it',
    ],
  ])('of a budget of money is refused: %j', (config, problem) => {
    expect(errorsOf(money(config))).toEqual([problem])
  })

  test('is recommended where a budget is smaller than a whole reservation, and warned of where it does not fit itself', () => {
    expect(problemsOf(tokens({ max_completion_tokens: 200_000 })).warnings).toEqual([
      expect.stringMatching(/reserves 200000 tokens .* always rejected\. With reserve: \{\} a stream reserves 2000$/),
    ])
    expect(problemsOf(tokens({ max_completion_tokens: 200_000, reserve: {} })).warnings).toEqual([
      expect.stringMatching(/a request without max_tokens that is no stream reserves 200000 tokens .* always rejected$/),
    ])
    expect(problemsOf(tokens({ tokens_per_day: 1500, reserve: {} })).warnings).toEqual([
      expect.stringContaining(
        'a stream reserves 2000 tokens (reserve.first), more than tokens_per_day (1500) can ever hold: it is always rejected',
      ),
    ])
  })
})
