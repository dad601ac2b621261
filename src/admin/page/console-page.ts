import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { asset } from '../../asset.ts'
import type { Route } from '../../http/routes.ts'

/** The page's files, as `npm run build` writes them, and what they are. */
const FILES: Readonly<Record<string, readonly [path: string, type: string]>> = {
  'index.html': ['/', 'text/html; charset=utf-8'],
  'console.js': ['/console/console.js', 'text/javascript; charset=utf-8'],
  'console.css': ['/console/console.css', 'text/css; charset=utf-8'],
  'icon.svg': ['/console/icon.svg', 'image/svg+xml'],
}

/** Everything comes from here, and nothing is run or styled that a file does not hold. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** The page of operators. It holds nothing secret: what it shows it asks the admin API for. */
export function* consoleRoutes(): Generator<Route> {
  for (const [name, [path, type]] of Object.entries(FILES)) {
    let bytes: Buffer | undefined
    yield {
      path,
      methods: ['GET', 'HEAD'],
      handle: (_req, res) => {
        bytes ??= readFileSync(asset(`../program/console/${name}`))
        respond(res, type, bytes)
      },
    }
  }
}

function respond(res: ServerResponse, type: string, bytes: Buffer): void {
  res.writeHead(200, [
    'Content-Type',
    type,
    'Content-Length',
    String(bytes.length),
    'Cache-Control',
    'no-cache',
    'Content-Security-Policy',
    POLICY,
    'X-Content-Type-Options',
    'nosniff',
    'Referrer-Policy',
    'no-referrer',
  ])
  res.end(bytes)
}
