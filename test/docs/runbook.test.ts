import { expect, test } from 'vitest'
import { Runbook, runbookTitles } from './runbook.ts'
import { describeWithCurl } from './shell.ts'

/** Each command is a process. */
const TIMEOUT_MS = 60_000

describeWithCurl('docs/runbook.md', () => {
  test(
    'a customer gets 429: every command prints what the page shows',
    async () => {
      const runbook = await Runbook.start()
      await runbook.follow('A customer gets 429')
    },
    TIMEOUT_MS,
  )

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
