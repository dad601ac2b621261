import { describe, expect, test } from 'vitest'
import { budgetRule, bundle, policy } from '../../../test/support/bundles/bundles.ts'
import { requestFacts } from '../../../test/support/costs/request-facts.ts'
import { tokenCounts } from '../../llm/usage.ts'
import { formatProblem } from '../../text/problem.ts'
import { compileBundle } from '../compile.ts'
import { parseBundle } from '../parse.ts'

const PRICES = { main: { 'gpt-5*': { input: 1.25, cached_input: 0.125, output: 10 }, '*': { input: 5, output: 25 } } }
const CONFIG = 'policies[0].spec.rules[0].algorithm_config'
const BUDGET = { budget: 250, prices: 'main' }
const MONEY = 'an amount of money, a number above 0, up to 9000000, with at most 6 decimals'
const PER_REQUEST = 'an amount for each request, a number from 0 to 1000000 with at most 6 decimals'
const THRESHOLD = 'a whole number of input tokens, from 1 to 1000000000'
const PRICE = 'a price for a million tokens, a number from 0 to 1000000 with at most 6 decimals'

function withPrices(prices: unknown, config: object = BUDGET): object {
  return { ...bundle(1, policy('p', { rules: [budgetRule('r', [], config)] })), prices }
}

function withConfig(config: object): object {
  return withPrices(PRICES, { ...BUDGET, ...config })
}

function problems(value: object): string[] {
  const parsed = parseBundle(JSON.stringify(value))
  return parsed.ok ? [] : parsed.problems.map(formatProblem)
}

function warnings(value: object): string[] {
  const parsed = parseBundle(JSON.stringify(value))
  if (!parsed.ok) throw new Error(parsed.problems.map(formatProblem).join('\n'))
  return parsed.warnings.map(formatProblem)
}

test('a budget of money is a bundle without problems', () => {
  expect(warnings(withPrices(PRICES))).toEqual([])
  expect(warnings(withPrices(undefined, { budget: 0.000001, cost: { header: 'X-Cost', default: 0.000001, max: 9_000_000 } }))).toEqual([])
  expect(warnings(withConfig({ timezone: 'europe/berlin', period: '1mo', warn_at_percent: [100, 1, 80, 80] }))).toEqual([])
  expect(warnings(withConfig({ cost: { header: 'x-cost', default: 1 } }))).toEqual([])
})

describe('a bad budget gets a sentence', () => {
  test.each([
    [{ budget: undefined }, `${CONFIG}.budget: expected ${MONEY}, but it is missing`],
    [{ budget: 0 }, `${CONFIG}.budget: expected ${MONEY}, got 0`],
    [{ budget: -5 }, `${CONFIG}.budget: expected ${MONEY}, got -5`],
    [{ budget: 9_000_000.000001 }, `${CONFIG}.budget: expected ${MONEY}, got 9000000.000001`],
    [{ budget: 0.0000001 }, `${CONFIG}.budget: expected ${MONEY}, got 1e-7`],
    [{ budget: '250' }, `${CONFIG}.budget: expected ${MONEY}, got "250" — remove the quotes?`],
    [{ period: '7d' }, /algorithm_config\.period: expected a period such as 1w, one of 1m, .*, 1y, got "7d"$/],
    [
      { timezone: 'Mars/Olympus' },
      `${CONFIG}.timezone: expected an IANA time zone as Area/City, such as Europe/Berlin, got "Mars/Olympus"`,
    ],
    [
      { prices: undefined },
      `${CONFIG}.prices: expected the name of a table in the bundle's prices, or cost with header and default beside it, but it is missing`,
    ],
    [{ prices: 'mian' }, `${CONFIG}.prices: expected the name of a table in the bundle's prices, got "mian" — did you mean "main"?`],
    [{ prices: 'constructor' }, `${CONFIG}.prices: expected the name of a table in the bundle's prices, got "constructor"`],
    [
      { warn_at_percent: [] },
      `${CONFIG}.warn_at_percent: expected at least one percentage (leave \`warn_at_percent\` out for none), got an empty list`,
    ],
    [{ warn_at_percent: [0] }, `${CONFIG}.warn_at_percent[0]: expected a whole number from 1 to 100, got 0`],
    [{ warn_at_percent: [80, 100.5] }, `${CONFIG}.warn_at_percent[1]: expected a whole number from 1 to 100, got 100.5`],
    [{ warn_at_percent: 80 }, `${CONFIG}.warn_at_percent: expected a list of percentages, got 80`],
    [{ cost: { header: 'x cost', default: 1 } }, `${CONFIG}.cost.header: expected the name of a header field, got "x cost"`],
    [{ cost: { header: 'x-cost' } }, `${CONFIG}.cost.default: expected ${MONEY}, but it is missing`],
    [{ cost: { header: 'x-cost', default: 0 } }, `${CONFIG}.cost.default: expected ${MONEY}, got 0`],
    [{ cost: { header: 'x-cost', default: 2, max: 1 } }, `${CONFIG}.cost.default: expected a number no higher than max, got 2`],
    [{ cost: { header: 'x-cost', default: 1, maximum: 2 } }, `${CONFIG}.cost: unknown field "maximum"`],
    [{ burst: 5 }, /unknown field "burst"/],
  ])('%j', (config, sentence) => {
    expect(problems(withConfig(config))).toEqual([typeof sentence === 'string' ? sentence : expect.stringMatching(sentence)])
  })

  test('where the bundle has no prices', () => {
    expect(problems(withPrices(undefined))).toEqual([
      `${CONFIG}.prices: expected the name of a table in the bundle's prices (it has none), got "main"`,
    ])
  })
})

test('what prices leave out is the price of the input, or the one that the model has below the threshold', () => {
  const above = { tokens: 1000, input: 20, cache_write: 30 }
  const model = { input: 10, cached_input: 5, cache_write: 12, output: 40, above, per_request: 0.5 }
  const parsed = parseBundle(JSON.stringify(withPrices({ main: { m: model, '*': { input: 5, output: 25 } } })))
  if (!parsed.ok) throw new Error(parsed.problems.map(formatProblem).join('\n'))
  const { cost } = compileBundle(parsed.bundle).policies[0]!.rules[0]!
  const reserved = (model: string, promptTokens: number): number =>
    cost.of(requestFacts({ body: { promptTokens, requestedTokens: 100, choices: 1, isStream: false, model } }))
  const settled = (input: number, parts: object): number | undefined => {
    const facts = requestFacts({ body: { promptTokens: 1, requestedTokens: 100, choices: 1, isStream: false, model: 'm' } })
    return cost.settling!.forRequest!(facts).settled(0, { tokens: tokenCounts(input, 1, parts), isStreamed: false })
  }
  const half = 500_000_000
  expect(reserved('m', 1000)).toBe(1000 * 12_000 + 100 * 40_000 + half)
  expect(reserved('m', 1001)).toBe(1001 * 30_000 + 100 * 40_000 + half)
  expect(reserved('x', 1001)).toBe(1001 * 5000 + 100 * 25_000)
  expect(settled(100, { cachedInput: 10, cacheWrite: 30, cacheWrite1h: 20 })).toBe(60 * 10_000 + 10 * 5000 + 30 * 12_000 + 40_000 + half)
  const long = { cachedInput: 10, cacheWrite: 30, cacheWrite1h: 20 }
  expect(settled(1100, long)).toBe(1060 * 20_000 + 10 * 5000 + 30 * 30_000 + 40_000 + half)
})

describe('bad prices get a sentence', () => {
  const price = (config: object) => ({ main: { '*': { input: 1, output: 1, ...config } } })
  test.each([
    [{ main: 5 }, 'prices.main: expected an object with a price for each model, got 5'],
    [{ main: { '*': 5 } }, 'prices.main["*"]: expected an object with input and output (prices has tables, and a table has models), got 5'],
    [
      { main: { 'gpt-5': { input: 1, output: 1 } } },
      'prices.main["*"]: expected a price for every other model, so that none is free by accident, but it is missing',
    ],
    [{ main: {} }, 'prices.main["*"]: expected a price for every other model, so that none is free by accident, but it is missing'],
    [price({ input: -1 }), `prices.main["*"].input: expected ${PRICE}, got -1`],
    [price({ input: undefined }), `prices.main["*"].input: expected ${PRICE}, but it is missing`],
    [price({ output: null }), `prices.main["*"].output: expected ${PRICE}, got null`],
    [price({ output: '10' }), `prices.main["*"].output: expected ${PRICE}, got "10" — remove the quotes?`],
    [price({ cached_input: 1_000_001 }), `prices.main["*"].cached_input: expected ${PRICE}, got 1000001`],
    [price({ cache_write: 0.1234567 }), `prices.main["*"].cache_write: expected ${PRICE}, got 0.1234567`],
    [price({ cache_write_1h: -1 }), `prices.main["*"].cache_write_1h: expected ${PRICE}, got -1`],
    [price({ per_request: -1 }), `prices.main["*"].per_request: expected ${PER_REQUEST}, got -1`],
    [price({ per_request: 0.1234567 }), `prices.main["*"].per_request: expected ${PER_REQUEST}, got 0.1234567`],
    [
      price({ above: 5 }),
      'prices.main["*"].above: expected an object with tokens, and the prices that differ above so many input tokens, got 5',
    ],
    [price({ above: { input: 1 } }), `prices.main["*"].above.tokens: expected ${THRESHOLD}, but it is missing`],
    [price({ above: { tokens: 0 } }), `prices.main["*"].above.tokens: expected ${THRESHOLD}, got 0`],
    [price({ above: { tokens: 1, output: -1 } }), `prices.main["*"].above.output: expected ${PRICE}, got -1`],
    [price({ above: { tokens: 1, outputs: 1 } }), 'prices.main["*"].above: unknown field "outputs": did you mean "output"?'],
    [price({ cached: 1 }), 'prices.main["*"]: unknown field "cached": did you mean "cached_input"?'],
  ])('%j', (prices, sentence) => {
    expect(problems(withPrices(prices))).toEqual([sentence])
  })

  test.each(['gpt-*-mini', '**', 'é', 'x'.repeat(257), ''])('for the pattern %j', (pattern) => {
    const found = problems(withPrices({ main: { '*': { input: 1, output: 1 }, [pattern]: { input: 1, output: 1 } } }))
    expect(found).toEqual([
      expect.stringMatching(
        /^prices\.main: expected each key to be a model, or a prefix that ends in \*, in 1 to 256 printable ASCII characters, got "/,
      ),
    ])
  })

  test('where they are a list', () => {
    expect(problems({ ...bundle(1), prices: [] })).toEqual(['prices: expected an object with tables of prices, got an empty list'])
  })

  test('where a number is none, in YAML', () => {
    const text = 'bundle_version: 1\npolicies: []\nprices: { main: { "*": { input: .nan, output: .inf } } }\n'
    const parsed = parseBundle(text, 'yaml')
    expect(parsed.ok ? [] : parsed.problems.map(formatProblem)).toEqual([
      `prices.main["*"].input: expected ${PRICE}, got NaN`,
      `prices.main["*"].output: expected ${PRICE}, got Infinity`,
    ])
  })

  test('where there are too many of them', () => {
    const any = { input: 1, output: 1 }
    const tables = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`t${i}`, { '*': any }]))
    expect(problems(withPrices({ ...tables, ...PRICES }))).toEqual(['prices: expected at most 100 tables, got an object'])
    const models = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`m${i}`, any]))
    expect(problems(withPrices({ main: { '*': any, ...models } }))).toEqual([
      'prices: expected at most 10000 models in all tables, got an object',
    ])
  })

  test('where a name would vanish', () => {
    const text = JSON.stringify(withPrices(PRICES)).replace('"gpt-5*"', '"__proto__"')
    const parsed = parseBundle(text)
    expect(parsed.ok ? [] : parsed.problems.map(formatProblem)).toEqual(['prices.main: unknown field "__proto__"'])
  })
})

test('valid settings that surprise get a warning', () => {
  expect(warnings(withPrices({ main: { '*': { input: 0, output: 0 } } }))).toEqual([
    'prices.main: the price for "*" is 0: every model without a price of its own is free',
  ])
  expect(warnings(withConfig({ budget: 10, cost: { header: 'x-cost', default: 20 } }))).toEqual([
    `${CONFIG}: a request without x-cost costs 20, more than budget (10) can ever hold: it is always rejected`,
  ])
  const prices = { main: { '*': { input: 1, output: 75 } } }
  expect(warnings(withPrices(prices, { ...BUDGET, budget: 0.07 }))).toEqual([
    `${CONFIG}: a request without max_tokens reserves 0.075 at the price of "*" (1000 tokens), more than budget (0.07) can ever hold: it is always rejected`,
  ])
  // A stream that grows would begin with 2000 tokens, which this budget cannot hold either.
  expect(warnings(withPrices(prices, { ...BUDGET, budget: 0.075 }))).toEqual([])
})

test('`reserve` is recommended where the budget cannot hold what agents ask for of its dearest model', () => {
  const prices = {
    main: { '*': { input: 1, output: 15 }, 'big*': { input: 5, output: 75, per_request: 0.01 }, small: { input: 1, output: 2 } },
  }
  const of = (config: object): string[] => warnings(withPrices(prices, { ...BUDGET, ...config }))
  const never = 'can ever hold: it is always rejected'
  expect(of({ budget: 4.8 })).toEqual([
    `${CONFIG}: a request with max_tokens: 64000, as agents send it, reserves 4.81 at the price of "big*", more than budget (4.8) ${never}. With reserve: {} a stream reserves 0.16`,
  ])
  expect([of({ budget: 4.81 }), of({ budget: 4.8, reserve: {} }), of({ budget: 0.16, reserve: {} })]).toEqual([[], [], []])
  expect(of({ budget: 0.15, reserve: {} })).toEqual([
    `${CONFIG}: a stream reserves 0.16 at the price of "big*" (reserve.first, 2000 tokens), more than budget (0.15) ${never}`,
  ])
  expect(of({ budget: 0.05, reserve: { first: 100, step: 100 } })).toEqual([
    `${CONFIG}: a request without max_tokens that is no stream reserves 0.085 at the price of "big*" (1000 tokens), more than budget (0.05) ${never}`,
  ])
})

test('the price of "*" alone recommends nothing: it stands for models that no one may ask for', () => {
  const any = { '*': { input: 15, output: 75 } }
  expect(warnings(withPrices({ main: any }, { ...BUDGET, budget: 1 }))).toEqual([])
  expect(warnings(withPrices({ main: { ...any, mini: { input: 1, output: 2 } } }, { ...BUDGET, budget: 1 }))).toEqual([])
})

test('prices for a thousand tokens get a warning, and others do not', () => {
  const models = {
    'gpt-4o': { input: 0.0025, output: 0.01 },
    embedding: { input: 0.00002, output: 0 },
    free: { input: 0, output: 0 },
    small: { input: 0.005, output: 0.02 },
  }
  const message = (least: number, most: number): string =>
    `prices are for a million tokens: ${least} and ${most} look like prices for a thousand`
  expect(warnings(withPrices({ main: { ...models, '*': { input: 15, output: 75 } } }))).toEqual([
    `prices.main["gpt-4o"]: ${message(0.0025, 0.01)}`,
    `prices.main.embedding: ${message(0, 0.00002)}`,
  ])
})

describe('an alias', () => {
  const any = { input: 15, output: 75 }
  const of = (aliases: unknown): object => withPrices({ main: { 'gpt-4o': any, '*': any, aliases } })

  test('is refused where it could mean two things, or no model', () => {
    expect(problems(of({ 'gpt-4o': 'gpt-5' }))).toEqual([
      'prices.main.aliases["gpt-4o"]: expected a name without a price of its own: remove the alias, or the price, got "gpt-5"',
    ])
    expect(problems(of({ a: 'b', b: 'gpt-4o' }))).toEqual([
      'prices.main.aliases.a: expected the name of a model that is no alias itself, got "b"',
    ])
    for (const dated of ['b-2024-08-06', 'b@20240806', 'b:0'])
      expect(problems(of({ a: dated, b: 'gpt-4o' }))).toEqual([
        `prices.main.aliases.a: expected the name of a model that is no alias itself, got "${dated}"`,
      ])
    expect(problems(of({ a: 'gpt-4o-2024-08-06', b: 'gpt-4o' }))).toEqual([])
    const name = 'the name of a model without *, in 1 to 256 printable ASCII characters'
    expect(problems(of({ a: 'gpt-4*' }))).toEqual([`prices.main.aliases.a: expected ${name}, got "gpt-4*"`])
    expect(problems(of({ 'a*': 'gpt-4o' }))).toEqual([`prices.main.aliases: expected each key to be ${name}, got "a*"`])
    expect(problems(of(['gpt-4o']))).toEqual([
      'prices.main.aliases: expected an object of names and the models that they stand for (no model can be called aliases), got a list',
    ])
    expect(problems(of({ input: 1, output: 2 }))).toHaveLength(2)
  })

  test('of a model without a price has no effect, which is said', () => {
    expect(warnings(of({ a: 'gpt-5', b: 'gpt-4o-2024-08-06' }))).toEqual([
      'prices.main.aliases.a: it has no effect, because only "*" has a price for "gpt-5": add that model',
    ])
  })

  test('prices a model that a route sends, which is else said to cost as much as any', () => {
    const routed = (aliases: object): object => ({
      ...of(aliases),
      backends: { azure: { url: 'https://example.openai.azure.com' } },
      routes: [{ backends: [{ name: 'azure', model: 'gpt-4o' }], fallback: [{ name: 'azure', model: 'prod-gpt-4o' }] }],
    })
    expect(warnings(routed({}))).toEqual([
      'routes[0].fallback[0].model: only "*" of prices.main has a price for "prod-gpt-4o": add the model, or an alias for it',
    ])
    expect(warnings(routed({ 'prod-gpt-4o': 'gpt-4o' }))).toEqual([])
  })
})

describe('the counter of a budget', () => {
  function counterOf(config: object) {
    const parsed = parseBundle(JSON.stringify(withConfig(config)))
    if (!parsed.ok) throw new Error(parsed.problems.map(formatProblem).join('\n'))
    return compileBundle(parsed.bundle).counters[0]!
  }

  test('has period and zone in its identity, and neither budget, prices nor warnings', () => {
    const { identity } = counterOf({ timezone: 'europe/berlin', period: '1mo' })
    expect(identity).toEqual(['p', 'r', 'enforce', 'cost_budget', '1mo', 'Europe/Berlin', 'budget'])
    const same = counterOf({ timezone: 'Europe/Berlin', period: '1mo', budget: 7, warn_at_percent: [5], cost: { header: 'x', default: 1 } })
    expect(same.identity).toEqual(identity)
    expect(counterOf({ period: '1w' }).identity).not.toEqual(counterOf({ period: '1d' }).identity)
  })

  test('counts billionths, shows hundredths, and warns at exact amounts in ascending order', () => {
    const { size, limitText, limit, reason } = counterOf({ budget: 12.345678, warn_at_percent: [95, 33, 95] })
    expect([size, limitText, reason]).toEqual([12_345_678_000, '1234', 'budget_exceeded'])
    expect(limit).toMatchObject({
      warnings: [
        { percent: 33, tokens: 4_074_073_740 },
        { percent: 95, tokens: 11_728_394_100 },
      ],
    })
  })
})
