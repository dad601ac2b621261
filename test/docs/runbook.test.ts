import { expect, test } from 'vitest'
import { runbookTitles } from './runbook.ts'

test('the sections of docs/runbook.md whose commands campaigns run are all that have commands', () => {
  expect(runbookTitles()).toEqual([
    'A customer gets 429',
    'Everything is rejected',
    'What changed last?',
    'Why does my rule not apply?',
    'A bundle was refused',
    'Roll back a bundle',
    'Redis is unreachable',
    'Which instance?',
  ])
})
