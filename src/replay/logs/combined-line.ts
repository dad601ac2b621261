import { parseAddress } from '../../address.ts'
import { textMs } from './log-time.ts'
import { LoggedRequest } from './logged-request.ts'

/** `02/Jan/2026:15:04:05 +0100` */
const TIME_LENGTH = 26
const ABSENT = '-'

/**
 * A line of nginx's or Apache's combined format, or of the shorter common format:
 * `address - user [time] "request line" status bytes "referer" "user agent"`. nginx's own `main` adds `"X-Forwarded-For"`. Returns why
 * it cannot be read. Takes time in proportion to the line.
 */
export function readCombinedLine(line: string): LoggedRequest | string {
  const requestAt = line.indexOf('"')
  // The user's name may have spaces and brackets, but no quote: so the time is found from behind.
  const timeAt = requestAt - 2 - TIME_LENGTH
  if (timeAt < 2 || line[timeAt - 1] !== '[' || line[requestAt - 2] !== ']') return 'neither the combined format nor JSON'
  const timeMs = textMs(line.slice(timeAt, timeAt + TIME_LENGTH))
  if (Number.isNaN(timeMs)) return 'its time cannot be read'
  const requestEnd = closingQuote(line, requestAt)
  if (requestEnd < 0) return 'it ends in the middle of the request'
  const space = line.indexOf(' ', requestAt)
  if (space < 0 || space > requestEnd) return 'it names no request'
  const method = line.slice(requestAt + 1, space)
  if (!METHOD.test(method)) return 'it names no request'
  const target = targetOf(line, space + 1, requestEnd)
  if (target === '') return 'it names no request'
  const client = line.slice(0, line.indexOf(' '))
  return new LoggedRequest(
    timeMs,
    method,
    unescaped(target),
    '',
    addressOrNone(client),
    fieldsAfter(line, requestEnd),
    undefined,
    line.length,
  )
}

/** RFC 9110 9.1: a token. Requests that were no HTTP at all are logged too. */
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** Up to the protocol, which HTTP/0.9 has not. Clients may send spaces in targets. */
function targetOf(line: string, from: number, end: number): string {
  const protocolAt = line.lastIndexOf(' HTTP/', end)
  return line.slice(from, protocolAt >= from && protocolAt < end ? protocolAt : end)
}

/** `unix:` for a client at a unix socket; a name where Apache looks names up. */
function addressOrNone(client: string): string | undefined {
  return parseAddress(client) === undefined ? undefined : client
}

const NAMES = ['referer', 'user-agent', 'x-forwarded-for']

function fieldsAfter(line: string, requestEnd: number): string[] {
  const fields: string[] = []
  let at = requestEnd
  for (const name of NAMES) {
    const from = line.indexOf(' "', at + 1)
    const end = from < 0 ? -1 : closingQuote(line, from + 1)
    if (end < 0) break
    at = end
    const value = line.slice(from + 2, end)
    if (value === ABSENT || value === '') continue
    if (name !== 'x-forwarded-for' || isAddressList(value)) fields.push(name, unescaped(value))
  }
  return fields
}

/** A field behind the user agent may be anything. */
function isAddressList(value: string): boolean {
  return value.split(',').every((entry) => parseAddress(entry) !== undefined)
}

const BACKSLASH = 0x5c

/** Where the text ends whose opening quote is at `from`; -1 where it does not. */
function closingQuote(line: string, from: number): number {
  for (let at = line.indexOf('"', from + 1); at >= 0; at = line.indexOf('"', at + 1)) {
    let backslashes = 0
    while (line.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return -1
}

const ESCAPE = /\\(?:x([0-9A-Fa-f]{2})|(["\\bnrtv]))/g
const CONTROLS: Readonly<Record<string, string>> = { b: '\b', n: '\n', r: '\r', t: '\t', v: '\v' }

/** nginx escapes as `\xHH`, Apache in the ways of C too. */
function unescaped(text: string): string {
  if (!text.includes('\\')) return text
  return text.replace(ESCAPE, (_, hex: string | undefined, char: string) =>
    hex === undefined ? (CONTROLS[char] ?? char) : String.fromCharCode(Number.parseInt(hex, 16)),
  )
}
