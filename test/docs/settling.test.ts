import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { bundle, llmRule, policy } from '../support/bundles/bundles.ts'
import { describeWith } from '../support/describe-with.ts'
import { running } from '../support/service/running.ts'
import { codeBlocks, readText } from './markdown.ts'

const run = promisify(execFile)

const hasCurl = spawnSync('curl', ['--version']).status === 0

describeWith(hasCurl ? undefined : 'curl is not installed', 'docs/decision-api.md', () => {
  test('its commands reserve and settle', async () => {
    const rule = llmRule('budget', ['bearer'], { tokens_per_day: 1000, max_completion_tokens: 500 })
    const edge = await running({ bundle: bundle(1, policy('p', { rules: [rule] })) })
    const commands = codeBlocks(readText('docs/decision-api.md'), 'sh')[0]!
    const { stdout } = await run('sh', ['-c', commands.replaceAll('localhost:8080', `127.0.0.1:${edge.port}`)])
    expect(stdout).toBe('204\n')
    const { headers } = await edge.decide({ fields: [['Authorization', 'Bearer team-a']] })
    expect(headers['ratelimit-remaining']).toBe(String(1000 - 42 - 500))
  })
})
