import { test } from 'vitest'
import { readText } from '../docs/markdown.ts'
import { followSection } from '../docs/page-session.ts'
import { describeWithCurl } from '../docs/shell.ts'

describeWithCurl('docs/callers.md', () => {
  const sections = readText('docs/callers.md').split(/^(?=## )/m)

  test('five minutes to a first verified caller: the commands print what the page shows', async () => {
    await followSection(sections.find((section) => section.startsWith('## A first verified caller'))!)
  })
})
