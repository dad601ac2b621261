import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

export const REPOSITORY = fileURLToPath(new URL('..', import.meta.url))

/** Pages that do not lie in `docs/`, because people look for them where they are. */
const ELSEWHERE = [
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'deploy/helm/edge/README.md',
  'examples/fleet/README.md',
  'site/index.md',
  'test/README.md',
]
const NOT_OURS = new Set(['node_modules', 'dist', 'program', '.git'])

const markdown = markdownBelow('')
const isPage = (file) => file.startsWith('docs/') || ELSEWHERE.includes(file)

/** The Markdown files that are no pages of the site. */
export const excluded = markdown.filter((file) => !isPage(file))

/** Where each page lies in the site, by its path in the repository. */
export const places = Object.fromEntries(markdown.filter(isPage).map((file) => [file, placeOf(file)]))

function placeOf(file) {
  if (file === 'site/index.md') return 'index.md'
  if (file === 'docs/README.md') return 'pages.md'
  if (!file.includes('/')) return `project/${file.toLowerCase()}`
  return file.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')
}

/**
 * Where a link of a page leads in the site: to a page, or to a copy of a file of the repository. Copies end in `.txt`, so that every server has
 * browsers show them. Undefined for a link that is none of ours: an anchor of the same page, or one that leads out of the repository.
 */
export function targetOf(file, link) {
  if (/^(?:[a-z][a-z+.-]*:|#|\/)/i.test(link)) return undefined
  const [path, anchor] = link.split('#')
  const target = normalize(join(dirname(file), decodeURI(path)))
  const place = places[target]
  if (place !== undefined) return { href: `/${place}${anchor === undefined ? '' : `#${anchor}`}` }
  if (!existsSync(join(REPOSITORY, target)) || statSync(join(REPOSITORY, target)).isDirectory())
    throw new Error(`${file} links to ${link}, which is no file of the repository. Link to a page or to a file.`)
  return { href: `/files/${target}.txt`, copied: target }
}

/** The pages in the order of `docs/README.md`, under its headings. Pages of a folder that has an index stand below that. */
export function sidebar() {
  const listed = new Set()
  const sections = readFileSync(join(REPOSITORY, 'docs/README.md'), 'utf8').split(/^## /m).slice(1)
  const groups = sections.map((section) => {
    const files = Array.from(section.matchAll(/\]\(([^)#\s]+\.md)(?:#[^)]*)?\)/g), ([, link]) => normalize(join('docs', link)))
    const items = files.filter((file) => !listed.has(file) && listed.add(file))
    return { text: section.slice(0, section.indexOf('\n')), collapsed: false, items: nested(items) }
  })
  return [{ text: 'All pages', link: '/pages' }, ...groups]
}

function nested(files) {
  const indexes = files.filter((file) => file.startsWith('docs/') && file.endsWith('/README.md'))
  const belongsTo = (file) => indexes.find((index) => file !== index && dirname(file) === dirname(index))
  return files
    .filter((file) => belongsTo(file) === undefined)
    .map((file) => {
      if (!indexes.includes(file)) return entryOf(file)
      const inFolder = markdown.filter((other) => belongsTo(other) === file)
      const inOrder = [...new Set([...files.filter((other) => inFolder.includes(other)), ...inFolder])]
      return { ...entryOf(file), collapsed: true, items: inOrder.map(entryOf) }
    })
}

function entryOf(file) {
  return { text: titleOf(file), link: `/${places[file].replace(/(?:index)?\.md$/, '')}` }
}

function titleOf(file) {
  return /^# (.+)$/m.exec(readFileSync(join(REPOSITORY, file), 'utf8'))[1].replaceAll('`', '')
}

function markdownBelow(folder) {
  return readdirSync(join(REPOSITORY, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return NOT_OURS.has(entry.name) ? [] : markdownBelow(path)
    return entry.name.endsWith('.md') ? [path] : []
  })
}
