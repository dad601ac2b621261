import type { IncomingMessage, ServerResponse } from 'node:http'
import { asset } from '../../asset.ts'
import { respondText } from '../../http/respond.ts'
import type { Route } from '../../http/routes.ts'
import { acceptsGzip, hasTag } from './conditional-request.ts'
import { type PageFile, readPageFile } from './page-file.ts'

/** The page's files, as `npm run build` writes them, and what they are. */
const FILES: Readonly<Record<string, readonly [path: string, type: string]>> = {
  'index.html': ['/', 'text/html; charset=utf-8'],
  'console.js': ['/console/console.js', 'text/javascript; charset=utf-8'],
  'console.css': ['/console/console.css', 'text/css; charset=utf-8'],
  'icon.svg': ['/console/icon.svg', 'image/svg+xml'],
}

/** Everything comes from here; nothing is run or styled that a file does not hold; and no text can become HTML or a script. */
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
  'This page was not built: that needs Node 20.19 or later. The API below /admin/v1/ and the commands, such as `edge status`, work without it.\n'

/** The page of operators. It holds nothing secret: what it shows it asks the admin API for. `folder` ends in `/`. */
export function* consoleRoutes(folder: URL = asset('../program/console/')): Generator<Route> {
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
  // A browser asks each time whether its copy is the newest, so that a page and its script are of one build.
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
