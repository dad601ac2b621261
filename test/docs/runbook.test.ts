import { expect, test } from 'vitest'
import { readText, withoutCodeBlocks } from './markdown.ts'
import { runbookTitles } from './runbook.ts'

test('the runbook begins with a list of all its sections, in their order', () => {
  const text = withoutCodeBlocks(readText('docs/runbook.md'))
  const sections = Array.from(text.matchAll(/^## (.+)$/gm), ([, title]) => title)
  expect(Array.from(text.matchAll(/^- \[(.+)\]\(#[^)]+\)$/gm), ([, title]) => title)).toEqual(sections)
})

test('the sections of docs/runbook.md whose commands campaigns run are all that have commands', () => {
  expect(runbookTitles()).toEqual([
    'A customer gets 429',
    'Everything is rejected',
    'What changed last?',
    'Why does my rule not apply?',
    'A bundle was refused',
    'Roll back a bundle',
    'Redis is unreachable',
    'A provider is down',
    'A provider refuses our key',
    'A stream hangs',
    'Spend explodes',
    'A key leaked',
    'Which instance?',
  ])
})
