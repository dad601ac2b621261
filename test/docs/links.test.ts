import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import { markdownFiles, ROOT, readText, withoutCodeBlocks } from './markdown.ts'

test.each(markdownFiles())('every relative link of %s leads to a file and to a heading that exist', (file) => {
  expect(linksOf(file).filter((link) => !leadsSomewhere(file, link))).toEqual([])
})

function linksOf(file: string): string[] {
  const links = [...withoutCodeBlocks(readText(file)).matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]!)
  return links.filter((link) => !/^[a-z]+:/.test(link))
}

function leadsSomewhere(file: string, link: string): boolean {
  const [path, anchor] = link.split('#')
  const target = path === '' ? file : normalize(join(dirname(file), path!))
  if (!existsSync(join(ROOT, target))) return false
  return anchor === undefined || anchorsOf(target).includes(anchor)
}

/** Anchors as GitHub makes them from headings. */
function anchorsOf(file: string): string[] {
  const headings = [...withoutCodeBlocks(readText(file)).matchAll(/^#+ (.*)$/gm)].map((match) => match[1]!)
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}
