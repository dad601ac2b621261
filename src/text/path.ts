/**
 * Paths are compared in normalised form, so that `//api`, `/%61pi` and `/x/../api` cannot bypass a limit on
 * `/api`. The input is a request target as a latin1 string, as Node's HTTP server returns it.
 */
export function normalizePath(target: string): string {
  const end = plainEnd(target)
  if (end < 0) return normalizeSlowly(target)
  return end === target.length ? target : target.slice(0, end)
}

/** Matches two dots as servers may decode them, once or more often. Whatever follows counts, since some servers end a segment at `\` or `;`. */
const TWO_DOTS = /(?:\.|%(?:25)*2e){2}/i

/**
 * Whether backends differ in what a target's path means: some resolve `/api/../health`, `/health/..%2Fapi` or `/health/..;/api`, others do
 * not, and to some `//health/api` is `/api` on a host named health.
 */
export function isAmbiguousPath(target: string): boolean {
  if (target.startsWith('//')) return true
  if (!target.includes('.') && !target.includes('%')) return false
  const end = target.search(/[?#]/)
  return TWO_DOTS.test(end < 0 ? target : target.slice(0, end))
}

/**
 * Whether every backend reads a target's path alike: it has no escapes, parameters, empty segments or dot segments, and is not an absolute URL. `isAmbiguousPath`
 * asks only whether a path may mean another one; where a path opens something, whatever is unusual is another path.
 */
export function isPlainPath(target: string): boolean {
  const end = target.indexOf('?')
  const path = end < 0 ? target : target.slice(0, end)
  return PLAIN_PATH.test(path) && !NOT_PLAIN.test(path)
}

const PLAIN_PATH = /^\/[A-Za-z0-9._~!$&'()*+,=:@/-]*$/
const NOT_PLAIN = /\/\/|\/\.{1,2}(?:\/|$)/

/** How often a path is decoded at most, which is more than any server does. */
const MAX_DECODINGS = 5
/** Overlong forms of `.` and `/`, which UTF-8 forbids and some servers accept. */
const OVERLONG = /(?:\xc0|\xe0\x80)([\xae\xaf])/g
const CLIMBING = /(?:^|[/\\])\.\./

/** Whether a backend may resolve a target's path to one outside of the base path that it is appended to, however often it decodes the path. */
export function mayClimb(target: string): boolean {
  if (!target.includes('.') && !target.includes('%')) return false
  // Some backends take a `#` for a part of the path.
  let path = target.split('?', 1)[0]!
  for (let i = 0; i < MAX_DECODINGS; i++) {
    const decoded = path.replace(/%(?:u00)?([0-9a-f]{2})/gi, (_escape, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    if (CLIMBING.test(decoded.replace(OVERLONG, (_bytes, last: string) => (last === '\xae' ? '.' : '/')))) return true
    if (decoded === path) return false
    path = decoded
  }
  return true
}

/** Percent-encodes characters that are not ASCII, as UTF-8. */
export function encodePathText(text: string): string {
  return text.replace(/[^\0-\x7f]+/g, (run) => encodeURIComponent(run.toWellFormed()))
}

const SLASH = 0x2f

/** Returns where the path ends if it is normalised already, as most are; otherwise -1. */
function plainEnd(target: string): number {
  if (target.charCodeAt(0) !== SLASH) return -1
  let isSegmentStart = false
  for (let i = 0; i < target.length; i++) {
    const code = target.charCodeAt(i)
    const kind = code < 128 ? KINDS[code]! : ESCAPED
    if (kind === PLAIN) {
      isSegmentStart = false
      continue
    }
    if (kind === END) return i
    if (kind === ESCAPED || isSegmentStart) return -1
    isSegmentStart = code === SLASH
  }
  return target.length
}

const ESCAPED = 0
const PLAIN = 1
const SLASH_OR_DOT = 2
const END = 3

// RFC 3986 3.3: unreserved / sub-delims / ":" / "@" need no escape
const KINDS = new Uint8Array(128)
for (const char of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~!$&'()*+,;=:@") KINDS[char.charCodeAt(0)] = PLAIN
for (const char of './') KINDS[char.charCodeAt(0)] = SLASH_OR_DOT
for (const char of '?#') KINDS[char.charCodeAt(0)] = END

const ABSOLUTE_FORM = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i

function normalizeSlowly(target: string): string {
  const end = target.search(/[?#]/)
  const path = (end < 0 ? target : target.slice(0, end)).replace(ABSOLUTE_FORM, '')
  return resolveSegments(normalizeEscapes(path))
}

function normalizeEscapes(path: string): string {
  return path.replace(/%([0-9a-fA-F]{2})|[^A-Za-z0-9\-._~!$&'()*+,;=:@/]/gu, (text, hex: string | undefined) => {
    if (hex === undefined) return text <= '\xff' ? escapeByte(text.charCodeAt(0)) : encodePathText(text)
    const code = Number.parseInt(hex, 16)
    return isUnreserved(code) ? String.fromCharCode(code) : escapeByte(code)
  })
}

// A lone `%` is escaped too: `%%361` must not turn into `%61`, which a second look would read as `a`.
function escapeByte(code: number): string {
  return `%${code.toString(16).toUpperCase().padStart(2, '0')}`
}

function isUnreserved(code: number): boolean {
  return /[A-Za-z0-9\-._~]/.test(String.fromCharCode(code))
}

/** Merges slashes and resolves dot segments in one pass, as servers that merge slashes do: `/a//../b` is `/b`. */
function resolveSegments(path: string): string {
  const kept: string[] = []
  let isDirectory = true
  for (const segment of path.split('/')) {
    isDirectory = segment === '' || segment === '.' || segment === '..'
    if (segment === '..') kept.pop()
    else if (!isDirectory) kept.push(segment)
  }
  const joined = `/${kept.join('/')}`
  return isDirectory && kept.length > 0 ? `${joined}/` : joined
}
