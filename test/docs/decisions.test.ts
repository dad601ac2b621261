import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT, readText, tableRows } from './markdown.ts'

const FOLDER = 'docs/decisions'

test('the index lists every decision with its title, and what replaced or extended it', () => {
  const files = readdirSync(join(ROOT, FOLDER)).filter((file) => /^\d{4}-.*\.md$/.test(file))
  expect(tableRows(readText(`${FOLDER}/README.md`), ['', 'Decision', 'Status'])).toEqual(files.sort().map(indexRow))
})

function indexRow(file: string): string[] {
  const text = readText(`${FOLDER}/${file}`)
  const number = file.slice(0, 4)
  const title = new RegExp(`^# ${number}: (.+)$`, 'm').exec(text)?.[1] ?? `a heading "# ${number}: ..."`
  return [`[${number}](${file})`, title, statusOf(text)]
}

/** The index has the numbers; what exactly changed is said at the top of the record. */
function statusOf(text: string): string {
  const [top] = text.split('\n## ')
  const [, change, records] = /^((?:Replaced|Partly replaced|Extended) by) ([^:]+):/m.exec(top!) ?? []
  if (change === undefined) return 'in force'
  return `${change.toLowerCase()} ${Array.from(records!.matchAll(/\[(\d{4})\]/g), ([, number]) => number).join(', ')}`
}
