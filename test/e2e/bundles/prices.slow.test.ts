import { expect, test } from 'vitest'
import { bucketRule, policy } from '../../support/bundles/bundles.ts'
import { moneyBundle } from '../../support/llm/money-proxy.ts'
import { servingOn } from '../../support/workers/workers.ts'

test('the prices of a bundle that is read on a thread of its own reach every worker', async () => {
  // Above a mebibyte.
  const padding = policy('padding', {
    selector: { pathExact: '/padding' },
    rules: [{ ...bucketRule('r', [], 1), metadata: { note: 'x'.repeat(1_100_000) } }],
  })
  const { port } = await servingOn(2, moneyBundle(1, { policies: [padding], config: { period: '1y' } }))
  const fields = { 'X-Original-Method': 'GET', 'X-Original-URI': '/' }
  const response = await fetch(`http://127.0.0.1:${port}/v1/decision`, { method: 'POST', headers: fields })
  expect([response.status, response.headers.get('ratelimit-remaining')]).toEqual([200, '2000'])
})
