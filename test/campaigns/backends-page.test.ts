import { expect, test } from 'vitest'
import { readText, withoutCodeBlocks } from '../docs/markdown.ts'
import { followSection } from '../docs/page-session.ts'
import { describeWithCurl } from '../docs/shell.ts'

const PAGE = readText('docs/backends.md')

test('docs/backends.md begins with a list of all its sections, in their order', () => {
  const text = withoutCodeBlocks(PAGE)
  const sections = Array.from(text.matchAll(/^## (.+)$/gm), ([, title]) => title)
  expect(Array.from(text.matchAll(/^- \[(.+)\]\(#[^)]+\)$/gm), ([, title]) => title)).toEqual(sections)
})

describeWithCurl('docs/backends.md', () => {
  const sections = PAGE.split(/^(?=## )/m)

  test('five minutes to a first failover: the commands print what the page shows', async () => {
    await followSection(sections.find((section) => section.startsWith('## A first failover'))!)
  })
})
