import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, readFile, rename } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, normalize } from 'node:path'
import type { Owner } from '../service/running.ts'
import { succeed } from './npm.ts'
import { sourceCopy } from './source-copy.ts'

/**
 * The site as `npm run site` builds it in a fresh clone, where it first installs what builds it. It is not at the root of its host, as GitHub Pages
 * publishes it: the folder that is returned is the root.
 */
export async function builtSite(owner: Owner, base: `/${string}/`): Promise<string> {
  const source = await sourceCopy(owner)
  await succeed(source, 'env', `SITE_BASE=${base}`, 'npm', 'run', '--silent', 'site')
  const root = join(source, 'published')
  await mkdir(root)
  await rename(join(source, 'site/dist'), join(root, base))
  return root
}

/** The paths of all pages of a site, such as `/policy/rules.html`. */
export function pagesOf(folder: string): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return files.filter((file) => file.endsWith('.html') && !file.endsWith('404.html')).map((file) => `/${file}`)
}

/** The links and resources of a page that lead to no file of the site, or to an anchor that its page does not have. */
export function deadLinksOf(folder: string, page: string): string[] {
  return attributesOf(folder, page, /<[a-z]+\b[^>]*?\s(?:href|src)="([^"]*)"/g).filter((link) => {
    if (/^(?:https?|data|mailto):/.test(link)) return false
    const { pathname, hash } = new URL(link, `http://site${page}`)
    const target = decodeURI(pathname.endsWith('/') ? `${pathname}index.html` : pathname)
    if (!existsSync(join(folder, target))) return true
    return hash !== '' && !attributesOf(folder, target, /\sid="([^"]*)"/g).includes(decodeURIComponent(hash.slice(1)))
  })
}

function attributesOf(folder: string, page: string, pattern: RegExp): string[] {
  const html = readFileSync(join(folder, page), 'utf8')
  return Array.from(html.matchAll(pattern), ([, value]) => value!.replaceAll('&amp;', '&'))
}

/** What a server must know of a file's type. All others are downloads, and no page asks for one. */
const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
}

/** Serves a folder on loopback as the plainest host of files does, and returns its origin. */
export async function servingFiles(folder: string, owner: Owner): Promise<string> {
  const server = createServer(async ({ url = '/' }, response) => {
    const { pathname } = new URL(url, 'http://site')
    const file = join(folder, normalize(decodeURI(pathname.endsWith('/') ? `${pathname}index.html` : pathname)))
    const bytes = await readFile(file).catch(() => undefined)
    if (bytes === undefined) response.writeHead(404).end()
    else response.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(bytes)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
