import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { codeWords, ROOT, readText, tableRows } from './markdown.ts'

test('docs/operations/logs.md lists every event that the source logs', () => {
  const listed = tableRows(readText('docs/operations/logs.md'), ['Event', 'Level', 'What happened', 'Fields']).flatMap(([event]) =>
    codeWords(event!),
  )
  expect(new Set(listed)).toEqual(new Set([...sourceTexts()].flatMap(eventsIn)))
})

function* sourceTexts(): Generator<string> {
  for (const name of readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.ts') && !name.endsWith('.test.ts')) yield readText(join('src', name))
  }
}

/** `event: 'a'`, and the type `event: 'a' | 'b'` where a function takes it as an argument. */
function eventsIn(text: string): string[] {
  return [...text.matchAll(/\bevent: ('\w+'(?: \| '\w+')*)/g)].flatMap((match) => match[1]!.split(' | ').map((word) => word.slice(1, -1)))
}
