import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import { anchorsOf, markdownFiles, ROOT, readText, withoutCodeBlocks } from './markdown.ts'

test.each(markdownFiles())('every relative link of %s leads to a file and to a heading that exist', (file) => {
  expect(linksOf(file).filter((link) => !leadsSomewhere(file, link))).toEqual([])
})

test('every picture is shown somewhere', () => {
  const shown = markdownFiles().flatMap((file) => linksOf(file).map((link) => normalize(join(dirname(file), link))))
  expect(readdirSync(join(ROOT, 'docs/pictures')).filter((name) => !shown.includes(`docs/pictures/${name}`))).toEqual([])
})

/** Of Markdown, and of pictures that are written as HTML. */
function linksOf(file: string): string[] {
  const links = [...withoutCodeBlocks(readText(file)).matchAll(/\]\(([^)\s]+)\)|\bsrc(?:set)?="([^"\s]+)"/g)].map(
    (match) => (match[1] ?? match[2])!,
  )
  return links.filter((link) => !/^[a-z]+:/.test(link))
}

function leadsSomewhere(file: string, link: string): boolean {
  const [path, anchor] = link.split('#')
  const target = path === '' ? file : normalize(join(dirname(file), path!))
  if (!existsSync(join(ROOT, target))) return false
  return anchor === undefined || anchorsOf(target).includes(anchor)
}
