import { describe, expect, test } from 'vitest'
import { bucketRule, bundle, llmRule, policy } from '../../support/bundles/bundles.ts'
import type { Edge } from '../../support/service/edge.ts'
import type { Fields } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'

const HINTS_ON = { EDGE_GATEWAY_HINTS: 'on' }

/** Budgets of 10,000 tokens by key, of which a request reserves 100 if nothing is known of it. */
function budgets(mode = 'enforce'): object {
  const rule = llmRule('budget', ['header:x-key'], { tokens_per_day: 10_000, max_completion_tokens: 100 })
  return bundle(
    1,
    policy('p', { mode, selector: { pathPrefix: '/v1' }, rules: [rule] }),
    policy('free', { rules: [bucketRule('r', [], 1e6)] }),
  )
}

let callers = 0

/** What a new caller has used after one request. */
async function taken(edge: Edge, fields: Fields, uri = '/v1/chat/completions'): Promise<number> {
  const { headers } = await edge.decide({ method: 'POST', uri, fields: [['X-Key', `caller ${callers++}`], ...fields] })
  return 10_000 - Number(headers['ratelimit-remaining'])
}

test('hints count only where EDGE_GATEWAY_HINTS is on', async () => {
  const fields: Fields = [
    ['X-Edge-Prompt-Tokens', '5000'],
    ['X-Edge-Max-Tokens', '7'],
  ]
  expect(await taken(await running({ bundle: budgets() }), fields)).toBe(100)
  expect(await taken(await running({ bundle: budgets(), env: HINTS_ON }), fields)).toBe(5007)
})

describe('with EDGE_GATEWAY_HINTS=on', () => {
  test.each([
    ['the prompt', [['X-Edge-Prompt-Tokens', '50']], 150],
    ['a completion below the limit', [['X-Edge-Max-Tokens', '30']], 30],
    ['a completion above the limit', [['X-Edge-Max-Tokens', '300']], 100],
    ['a model alone', [['X-Edge-Model', 'gpt-5']], 100],
    ['nothing', [], 100],
    ['zero', [['X-Edge-Max-Tokens', '0']], 100],
    ['a negative number', [['X-Edge-Prompt-Tokens', '-50']], 100],
    ['a sign', [['X-Edge-Max-Tokens', '+5']], 100],
    ['a fraction', [['X-Edge-Max-Tokens', '5.0']], 100],
    ['another notation', [['X-Edge-Max-Tokens', '1e1']], 100],
    ['no number', [['X-Edge-Max-Tokens', 'NaN']], 100],
    ['nothing behind the name', [['X-Edge-Max-Tokens', '']], 100],
    ['two numbers in one field', [['X-Edge-Max-Tokens', '5, 6']], 100],
  ] as const)('%s', async (_, fields, tokens) => {
    expect(await taken(await running({ bundle: budgets(), env: HINTS_ON }), fields)).toBe(tokens)
  })

  test.each([20, 21, 400])('a prompt that no budget can ever hold is rejected for good: a number of %i digits', async (digits) => {
    const edge = await running({ bundle: budgets(), env: HINTS_ON })
    const { status, headers } = await edge.decide({
      uri: '/v1/x',
      fields: [
        ['X-Key', 'a'],
        ['X-Edge-Prompt-Tokens', '9'.repeat(digits)],
      ],
    })
    expect([status, headers['x-should-retry']]).toEqual([429, 'false'])
  })

  test('embeddings reserve the prompt alone', async () => {
    const edge = await running({ bundle: budgets(), env: HINTS_ON })
    expect(await taken(edge, [['X-Edge-Prompt-Tokens', '50']], '/v1/embeddings')).toBe(50)
  })

  test.each(['X-Edge-Prompt-Tokens', 'X-Edge-Max-Tokens', 'X-Edge-Model'])(
    '%s twice is refused where a rule needs it, and nowhere else',
    async (name) => {
      const edge = await running({ bundle: budgets(), env: HINTS_ON })
      const fields: Fields = [
        ['X-Key', 'a'],
        [name, '5'],
        [name.toLowerCase(), '5'],
      ]
      const { status, headers } = await edge.decide({ uri: '/v1/x', fields })
      expect([status, headers['x-edge-reason']]).toEqual([400, 'repeated_descriptor'])
      expect((await edge.decide({ uri: '/other', fields })).status).toBe(200)
    },
  )

  test('twice changes nothing where only a shadow policy needs it', async () => {
    const edge = await running({ bundle: budgets('shadow'), env: HINTS_ON })
    const fields: Fields = [
      ['X-Key', 'a'],
      ['X-Edge-Max-Tokens', '5'],
      ['X-Edge-Max-Tokens', '6'],
    ]
    expect((await edge.decide({ uri: '/v1/x', fields })).status).toBe(200)
  })
})
