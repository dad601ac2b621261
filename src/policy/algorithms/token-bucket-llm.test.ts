import { describe, expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../../../test/support/bundles/bundles.ts'
import { formatProblem } from '../../text/problem.ts'
import { compileBundle } from '../compile.ts'
import { parseBundle } from '../parse.ts'

const CONFIG = 'policies[0].spec.rules[0].algorithm_config'
const WEIGHT = 'how much such a token counts, a number from 0 to 100 with at most 2 decimals (1 counts it once)'

function parsedWith(config: object, selector: object = {}): ReturnType<typeof parseBundle> {
  const rule = llmRule('r', [], { tokens_per_minute: 2000, ...config })
  return parseBundle(JSON.stringify(bundle(1, policy('p', { selector, rules: [rule] }))))
}

function problems(config: object, selector?: object): string[] {
  const parsed = parsedWith(config, selector)
  return parsed.ok ? parsed.warnings.map(formatProblem) : parsed.problems.map(formatProblem)
}

function compiled(config: object) {
  const parsed = parsedWith(config)
  if (!parsed.ok) throw new Error(parsed.problems.map(formatProblem).join('\n'))
  return compileBundle(parsed.bundle).policies[0]!.rules[0]!
}

describe('count', () => {
  test.each([
    [
      { count: 2 },
      `${CONFIG}.count: expected an object with input, cached_input, cache_write or output (leave count out to count every token once), got 2`,
    ],
    [{ count: { input: -1 } }, `${CONFIG}.count.input: expected ${WEIGHT}, got -1`],
    [{ count: { cached_input: 100.01 } }, `${CONFIG}.count.cached_input: expected ${WEIGHT}, got 100.01`],
    [{ count: { cache_write: 1.255 } }, `${CONFIG}.count.cache_write: expected ${WEIGHT}, got 1.255`],
    [{ count: { output: '5' } }, `${CONFIG}.count.output: expected ${WEIGHT}, got "5" — remove the quotes?`],
    [{ count: { cached: 0.1 } }, `${CONFIG}.count: unknown field "cached": did you mean "cached_input"?`],
    [
      { count: { input: 0, cached_input: 0, cache_write: 0, output: 0 } },
      'policies[0].spec.rules[0].algorithm_config: every weight in count is 0: no request costs anything',
    ],
    [
      { count: { output: 2.5 } },
      'policies[0].spec.rules[0].algorithm_config: a request without max_tokens reserves 2500 tokens (the default without max_completion_tokens, times count.output), more than tokens_per_minute (2000) can ever hold: it is always rejected',
    ],
    [{ count: { output: 2 } }, undefined],
  ])('%j', (config, sentence) => {
    expect(problems(config)).toEqual(sentence === undefined ? [] : [sentence])
  })

  test('is refused where the hits of a call are its tokens', () => {
    const selector = { domain: 'd', descriptors: { 'descriptor:a': '*' } }
    expect(problems({ count: {} }, selector)).toEqual([
      `${CONFIG}.count: expected none in a policy with a domain: the hits of a call are its tokens`,
    ])
  })

  test('has weights in hundredths, each of them 1 where it is left out, and is not part of what a counter is', () => {
    expect(compiled({}).llm!.weights).toBeUndefined()
    expect(compiled({ count: {} }).llm!.weights).toEqual({ input: 100, cachedInput: 100, cacheWrite: 100, output: 100 })
    const weighted = compiled({ count: { cached_input: 0.1, cache_write: 1.25, output: 4.35 } })
    expect(weighted.llm!.weights).toEqual({ input: 100, cachedInput: 10, cacheWrite: 125, output: 435 })
    expect(weighted.counters.map(({ identity }) => identity)).toEqual(compiled({}).counters.map(({ identity }) => identity))
  })
})
