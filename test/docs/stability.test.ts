import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT, readText, tableRows } from './markdown.ts'

describe.each([
  ['docs/stability.md', 'docs', ['What', 'Promised', 'Pinned by']],
  ['SECURITY.md', '', ['Door', 'Who is trusted, with what', 'What holds all the same', 'Tested by']],
] as const)('every row of %s', (page, folder, columns) => {
  const rows = tableRows(readText(page), columns)

  test.each(rows.map((row) => [row[0]!, row.at(-1)!]))('%s: names tests that exist', (_what, cell) => {
    const files = testsIn(cell).map((file) => join(folder, file))
    expect(files.length > 0 || cell === 'none').toBe(true)
    expect(files.filter((file) => !/^test\/.*\.test\.ts$/.test(file) || !existsSync(join(ROOT, file)))).toEqual([])
  })
})

test('every test of test/stability/ pins a row of docs/stability.md', () => {
  const named = testsIn(readText('docs/stability.md')).map((file) => join('docs', file))
  const tests = readdirSync(join(ROOT, 'test/stability')).filter((file) => file.endsWith('.test.ts'))
  expect(tests.filter((file) => !named.includes(`test/stability/${file}`))).toEqual([])
})

function testsIn(text: string): string[] {
  return [...text.matchAll(/\]\(([^)\s]*\.ts)\)/g)].map(([, file]) => file!)
}
