import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { CONSOLE_FOLDER } from '../files/package-files.ts'
import { type Route, respondText } from '../listen/node-http/routes.ts'

/** The page's files as `npm run build` writes them, with their paths and media types. */
const FILES: Readonly<Record<string, readonly [path: string, type: string]>> = {
  'index.html': ['/', 'text/html; charset=utf-8'],
  'console.js': ['/console/console.js', 'text/javascript; charset=utf-8'],
  'console.css': ['/console/console.css', 'text/css; charset=utf-8'],
  'icon.svg': ['/console/icon.svg', 'image/svg+xml'],
}

/** Everything must come from this server, scripts and styles must come from files, and no text can become HTML or a script. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')
const PROTECTION = [
  ...['Content-Security-Policy', POLICY],
  ...['X-Content-Type-Options', 'nosniff'],
  ...['Referrer-Policy', 'no-referrer'],
  ...['Cross-Origin-Opener-Policy', 'same-origin'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
]
const NOT_BUILT =
  'This page is missing: `npm run build` writes it to program/console/. The API below /admin/v1/ and the commands, such as `edge status`, work without it.\n'

/** Yields the routes of the operators' page. It contains nothing secret, because it gets all it shows from the admin API. `folder` must end in `/`. */
export function* consoleRoutes(folder: URL = CONSOLE_FOLDER): Generator<Route> {
  for (const [name, [path, type]] of Object.entries(FILES)) {
    let file: PageFile | undefined
    yield {
      path,
      methods: ['GET', 'HEAD'],
      handle: (req, res) => {
        file ??= readPageFile(new URL(name, folder))
        if (file === undefined) return respondText(res, 503, 'text/plain; charset=utf-8', NOT_BUILT)
        respond(req, res, type, file)
      },
    }
  }
}

function respond({ headers }: IncomingMessage, res: ServerResponse, type: string, { plain, gzip, tag }: PageFile): void {
  // A browser checks each time whether its copy is current, so that a page and its script always come from the same build.
  const shared = ['ETag', tag, 'Cache-Control', 'no-cache', 'Vary', 'Accept-Encoding', ...PROTECTION]
  if (hasTag(headers['if-none-match'], tag)) {
    res.writeHead(304, shared)
    res.end()
    return
  }
  const isGzip = acceptsGzip(headers['accept-encoding'])
  const bytes = isGzip ? gzip : plain
  res.writeHead(200, [
    ...['Content-Type', type, 'Content-Length', String(bytes.length)],
    ...(isGzip ? ['Content-Encoding', 'gzip'] : []),
    ...shared,
  ])
  res.end(bytes)
}

/** Returns whether If-None-Match names the tag (RFC 9110 13.1.2). */
export function hasTag(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  return ifNoneMatch.split(',').some((part) => part.trim() === '*' || strong(part.trim()) === strong(tag))
}

/** Returns whether Accept-Encoding names gzip and does not exclude it (RFC 9110 12.5.3). */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false
  return acceptEncoding.split(',').some((part) => {
    const [coding, weight] = part.split(';', 2)
    return coding!.trim().toLowerCase() === 'gzip' && !isZero(weight)
  })
}

function strong(tag: string): string {
  return tag.startsWith('W/') ? tag.slice(2) : tag
}

function isZero(weight: string | undefined): boolean {
  const [name, value] = (weight ?? '').split('=', 2)
  return name!.trim().toLowerCase() === 'q' && Number(value) === 0
}

/** One file of the page, as it is sent. */
interface PageFile {
  readonly plain: Buffer
  readonly gzip: Buffer
  /** Value of the ETag field. It is weak, because the plain and the compressed form share it. */
  readonly tag: string
}

/** Reads a file and its compressed form, which the build made because workers have decisions to make. Returns undefined if the file is missing. */
function readPageFile(file: URL): PageFile | undefined {
  try {
    const plain = readFileSync(file)
    const gzip = readFileSync(new URL(`${file.href}.gz`))
    return { plain, gzip, tag: `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"` }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
