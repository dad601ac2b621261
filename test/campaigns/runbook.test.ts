import { expect, test } from 'vitest'
import { codeBlocks, readText, tableRows } from '../docs/markdown.ts'
import { Runbook } from '../docs/runbook.ts'
import { describeWithCurl } from '../docs/shell.ts'

describeWithCurl('every command prints what the page shows', () => {
  test('docs/runbook.md: a customer gets 429', async () => {
    const runbook = await Runbook.start()
    await runbook.follow('A customer gets 429')
  })

  test('docs/runbook.md: everything is rejected, what changed last, a bundle was refused, and one is rolled back', async () => {
    const runbook = await Runbook.start()
    await runbook.follow('Everything is rejected')
    await runbook.follow('What changed last?')
    await runbook.follow('Why does my rule not apply?')
    await runbook.follow('A bundle was refused')
    await runbook.follow('Roll back a bundle')
  })

  test('docs/runbook.md: Redis is unreachable, and which instance', async () => {
    const runbook = await Runbook.start({ EDGE_REDIS_URL: 'redis://127.0.0.1:1', EDGE_STATE_FILE: '' })
    await runbook.follow('Redis is unreachable')
    await runbook.follow('Which instance?')
  })
})

describeWithCurl('docs/operations/admin-api.md', () => {
  const page = readText('docs/operations/admin-api.md')
  const lines = tableRows(page, ['Endpoint', 'What it returns']).map(([endpoint, what]) => [endpoint!.slice(1, -1), what!] as const)

  test('the curl line of every endpoint gets a response that is no error', async () => {
    const runbook = await Runbook.start()
    await runbook.run(codeBlocks(page, 'sh').at(-1)!)
    for (const [line, what] of lines) {
      if (line === 'admin GET events') continue // never ends
      const printed = await runbook.run(line)
      if (what.startsWith('204')) {
        expect(printed, line).toBe('')
        continue
      }
      const response = JSON.parse(printed) as { error?: unknown; id?: string }
      expect(response.error, line).toBeUndefined()
      if (response.id !== undefined) runbook.replace('0123456789ab', response.id)
    }
  })
})
