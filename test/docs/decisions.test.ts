import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { anchorsOf, ROOT, readText, tableRows, textFiles } from './markdown.ts'

const FOLDER = 'docs/decisions'
const PAGES = readdirSync(join(ROOT, FOLDER)).filter((name) => name !== 'README.md')

test('every number has exactly one anchor, and none is left out', () => {
  const numbers = PAGES.flatMap((page) => decisionsOf(page).map(([number]) => number)).sort()
  expect(numbers.length).toBeGreaterThanOrEqual(88)
  expect(numbers).toEqual(numbers.map((_, index) => String(index + 1).padStart(4, '0')))
})

test('the index leads to every decision by its number and heading', () => {
  const rows = PAGES.flatMap((page) => decisionsOf(page).map(([number, heading]) => [`[${number}](${page}#${number})`, heading]))
  expect(tableRows(readText(`${FOLDER}/README.md`), ['Number', 'Decision'])).toEqual(rows.sort())
})

test.each(PAGES)('the index lists %s by its title, and the page begins with what it is for', (page) => {
  const [, title, purpose] = /^# (.+)\n\n(.+)/.exec(readText(`${FOLDER}/${page}`)) ?? []
  expect(readText(`${FOLDER}/README.md`)).toContain(`| [${title}](${page}) | `)
  expect(purpose).toMatch(/^[A-Z]/)
})

test('every link to a decision, in whichever file, leads to a page and to an anchor of it', () => {
  const links = textFiles().flatMap((file) =>
    Array.from(readText(file).matchAll(/decisions\/([\w.-]+\.md)(#[\w-]+)?/g), ([link, page, anchor]) => ({
      file,
      link,
      page: page!,
      anchor,
    })),
  )
  expect(links.length).toBeGreaterThan(40)
  expect(links.filter(({ page, anchor }) => !leadsSomewhere(page, anchor))).toEqual([])
})

function leadsSomewhere(page: string, anchor: string | undefined): boolean {
  if (page !== 'README.md' && !PAGES.includes(page)) return false
  return anchor === undefined || anchorsOf(`${FOLDER}/${page}`).includes(anchor.slice(1))
}

/** The numbers on a page, each with the heading that it stands above. */
function decisionsOf(page: string): [number: string, heading: string][] {
  const anchors = readText(`${FOLDER}/${page}`).matchAll(/<a id="(\d{4})"><\/a>(?:\n\n#+ (.+))?/g)
  return Array.from(anchors, ([, number, heading]) => [number!, heading ?? 'an anchor stands above a heading'])
}
