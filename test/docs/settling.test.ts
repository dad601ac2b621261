import { expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { ManualClock } from '../support/service/manual-clock.ts'
import { running } from '../support/service/running.ts'
import { codeBlocks, readText } from './markdown.ts'
import { describeWithCurl, printed } from './shell.ts'

describeWithCurl('docs/decision-api.md', () => {
  test('its commands reserve and settle', async () => {
    const rule = llmRule('budget', ['bearer'], { tokens_per_day: 1000, max_completion_tokens: 500 })
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [rule] })), clock: new ManualClock() })
    const commands = codeBlocks(readText('docs/decision-api.md'), 'sh')[0]!
    expect(await printed(commands, edge.port)).toBe('204')
    const { headers } = await edge.decide({ fields: [['Authorization', 'Bearer team-a']] })
    expect(headers['ratelimit-remaining']).toBe(String(1000 - 42 - 500))
  })
})
