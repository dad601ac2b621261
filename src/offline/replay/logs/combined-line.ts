import { fieldValue } from '../../../http1/header-fields.ts'
import type { FieldValue } from '../../../request/view.ts'
import { parseAddress } from '../../../text/address.ts'
import { TOKEN } from '../../../text/formats.ts'
import { textMs } from './log-time.ts'
import type { LoggedRequest } from './logged-request.ts'

/** Length of `02/Jan/2026:15:04:05 +0100`. */
const TIME_LENGTH = 26

/**
 * Reads a line of nginx's or Apache's combined format, or of the shorter common format:
 * `address - user [time] "request line" status bytes "referer" "user agent"`. nginx's own `main` adds `"X-Forwarded-For"`. If the line
 * cannot be read, returns why. Takes time linear in its length.
 */
export function readCombinedLine(line: string): LoggedRequest | string {
  const requestAt = line.indexOf('"') + 1
  // The user's name may contain spaces and brackets but no quote, so the time is located backwards from the first quote.
  const timeAt = requestAt - 3 - TIME_LENGTH
  if (timeAt < 2 || line[timeAt - 1] !== '[' || line[requestAt - 3] !== ']') return 'neither the combined format nor JSON'
  const timeMs = textMs(line.slice(timeAt, timeAt + TIME_LENGTH))
  if (Number.isNaN(timeMs)) return 'its time cannot be read'
  const requestEnd = closingQuote(line, requestAt)
  if (requestEnd < 0) return 'it ends in the middle of the request'
  // Servers also log requests that were not HTTP at all.
  const uriAt = line.indexOf(' ', requestAt) + 1
  if (uriAt === 0 || uriAt > requestEnd || !TOKEN.test(line.slice(requestAt, uriAt - 1))) return 'it has no request'
  const uriEnd = targetEnd(line, uriAt, requestEnd)
  return uriEnd > uriAt ? new CombinedRequest(line, timeMs, requestAt, uriAt, uriEnd, requestEnd) : 'it has no request'
}

/** The target ends at the protocol, which HTTP/0.9 lacks. Some clients send spaces in targets. */
function targetEnd(line: string, uriAt: number, requestEnd: number): number {
  const protocolAt = line.lastIndexOf(' HTTP/', requestEnd)
  return protocolAt >= uriAt ? protocolAt : requestEnd
}

/** Keeps the line and the positions of its parts, which are read when the request is decided. */
class CombinedRequest implements LoggedRequest {
  readonly timeMs: number
  readonly host = ''
  readonly body = undefined
  readonly #line: string
  readonly #methodAt: number
  readonly #uriAt: number
  readonly #uriEnd: number
  readonly #requestEnd: number

  constructor(line: string, timeMs: number, methodAt: number, uriAt: number, uriEnd: number, requestEnd: number) {
    this.timeMs = timeMs
    this.#line = line
    this.#methodAt = methodAt
    this.#uriAt = uriAt
    this.#uriEnd = uriEnd
    this.#requestEnd = requestEnd
  }

  get size(): number {
    return this.#line.length
  }

  get method(): string {
    return this.#line.slice(this.#methodAt, this.#uriAt - 1)
  }

  get uri(): string {
    return unescaped(this.#line.slice(this.#uriAt, this.#uriEnd))
  }

  /** Undefined for `unix:`, and for a host name, which Apache logs if it looks names up. */
  get peer(): string | undefined {
    const client = this.#line.slice(0, this.#line.indexOf(' '))
    return parseAddress(client) === undefined ? undefined : client
  }

  get fields(): readonly string[] {
    return fieldsAfter(this.#line, this.#requestEnd)
  }

  header(name: string): FieldValue {
    return NAMES.includes(name) ? fieldValue(this.fields, name) : undefined
  }
}

const NAMES = ['referer', 'user-agent', 'x-forwarded-for']
const ABSENT = '-'

function fieldsAfter(line: string, requestEnd: number): string[] {
  const fields: string[] = []
  let at = requestEnd
  for (const name of NAMES) {
    const from = line.indexOf(' "', at + 1)
    const end = from < 0 ? -1 : closingQuote(line, from + 2)
    if (end < 0) break
    at = end
    const value = line.slice(from + 2, end)
    if (value === ABSENT || value === '') continue
    if (name !== 'x-forwarded-for' || isAddressList(value)) fields.push(name, unescaped(value))
  }
  return fields
}

/** A field after the user agent may contain anything, so it counts only if it is a list of addresses. */
function isAddressList(value: string): boolean {
  return value.split(',').every((entry) => parseAddress(entry) !== undefined)
}

const BACKSLASH = 0x5c

/** Returns where the quoted text that begins at `from` ends; -1 if it does not. */
function closingQuote(line: string, from: number): number {
  for (let at = line.indexOf('"', from); at >= 0; at = line.indexOf('"', at + 1)) {
    let backslashes = 0
    while (line.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return -1
}

const ESCAPE = /\\(?:x([0-9A-Fa-f]{2})|(["\\bnrtv]))/g
const CONTROLS: Readonly<Record<string, string>> = { b: '\b', n: '\n', r: '\r', t: '\t', v: '\v' }

/** nginx escapes characters as `\xHH`; Apache also uses C escapes. */
function unescaped(text: string): string {
  if (!text.includes('\\')) return text
  return text.replace(ESCAPE, (_, hex: string | undefined, char: string) =>
    hex === undefined ? (CONTROLS[char] ?? char) : String.fromCharCode(Number.parseInt(hex, 16)),
  )
}
