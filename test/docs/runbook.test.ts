import { expect, test } from 'vitest'
import { Runbook, runbookTitles } from './runbook.ts'
import { describeWithCurl } from './shell.ts'

describeWithCurl('docs/runbook.md', () => {
  test('a customer gets 429: every command prints what the page shows', async () => {
    const runbook = await Runbook.start()
    await runbook.follow('A customer gets 429')
  })

  test('the other sections are followed by a campaign', () => {
    expect(runbookTitles()).toEqual([
      'A customer gets 429',
      'Everything is rejected',
      'A bundle was refused',
      'Redis is unreachable',
      'Which instance?',
    ])
  })
})
