import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import { anchorsOf, markdownFiles, ROOT, readText, withoutCodeBlocks } from './markdown.ts'

/** What users read: all but the decisions, which have an index of their own. */
const PAGES = markdownFiles('docs').filter((file) => !/^docs\/decisions\/(?!README)/.test(file))

test.each(markdownFiles())('every relative link of %s leads to a file and to a heading that exist', (file) => {
  expect(linksOf(file).filter((link) => !leadsSomewhere(file, link))).toEqual([])
})

test('every picture is shown somewhere', () => {
  const shown = markdownFiles().flatMap((file) => linksOf(file).map((link) => normalize(join(dirname(file), link))))
  expect(readdirSync(join(ROOT, 'docs/pictures')).filter((name) => !shown.includes(`docs/pictures/${name}`))).toEqual([])
})

test('docs/README.md lists every page, and README.md leads to it', () => {
  const listed = linksOf('docs/README.md').map((link) => normalize(join('docs', link)))
  expect(PAGES.filter((file) => file !== 'docs/README.md' && !listed.includes(file))).toEqual([])
  expect(linksOf('README.md')).toContain('docs/README.md')
})

test.each(PAGES)('%s begins with what it is for, in a sentence or two', (file) => {
  const [title, opening = ''] = readText(file).split('\n\n')
  expect(title).toMatch(/^# /)
  expect(opening).toMatch(/^[A-Z`*[].*[.:]/s)
})

/** Messages, comments and configurations name pages by their path from the root. */
test('every page that a file names exists, with the heading that it names', () => {
  const named = NAMING_FOLDERS.flatMap(filesBelow).flatMap((file) =>
    [...readText(file).matchAll(/\bdocs\/[\w/-]+\.md(?:#[\w-]+)?/g)].map(([page]) => ({ file, page })),
  )
  expect(named.length).toBeGreaterThan(30)
  expect(named.filter(({ file, page }) => !INVENTED.has(file) && !leadsSomewhere('', page))).toEqual([])
})

const NAMING_FOLDERS = [
  'src',
  'console',
  'deploy',
  'examples',
  'schema',
  'scripts',
  'bench',
  'test',
  'CONTRIBUTING.md',
  'ARCHITECTURE.md',
  'README.md',
]
/** This test names a page that does not exist. */
const INVENTED: ReadonlySet<string> = new Set(['test/structure/touched-tests.test.ts'])
const TEXT = /\.(?:ts|tsx|mjs|js|json|ya?ml|md|lua|conf|cfg|css|html|sh)$/

function filesBelow(path: string): string[] {
  if (!statSync(join(ROOT, path)).isDirectory()) return [path]
  return readdirSync(join(ROOT, path), { recursive: true, encoding: 'utf8' })
    .filter((name) => TEXT.test(name) && !name.includes('node_modules'))
    .map((name) => join(path, name))
}

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
