import { type FieldName, fieldName } from '../../http1/field-name.ts'
import { hasMember, headerValue } from '../../http1/header-fields.ts'

/** The backend sent something that is not a valid HTTP/1 response. */
export class InvalidResponse extends Error {
  readonly code = 'EDGE_INVALID_RESPONSE'
}

export interface ResponseHead {
  readonly version: '1.0' | '1.1'
  readonly status: number
  readonly reason: string
  /** Names and values in turn, as received. */
  readonly fields: readonly string[]
  /** Properties of each field that follow from its name, in the same order. */
  readonly names: readonly FieldName[]
  /** All field lines with their line ends; undefined unless each is written as `Name: value`. */
  readonly lines: string | undefined
  /** The values of Connection, joined by commas. */
  readonly connection: string
  readonly isChunked: boolean
  readonly contentLength: number | undefined
  readonly hasDisposition: boolean
  readonly isEventStream: boolean
  /** The connection may be reused after this response. */
  readonly keepsAlive: boolean
  /** How long the backend keeps an idle connection open, as its Keep-Alive field says. */
  readonly keepAliveMs: number | undefined
}

/** RFC 9112 6.3: whether bytes may follow a head of this status. */
export function hasBody(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304
}

/** Matches a control character or half a line end. */
const BAD_TEXT = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)|(?<!\r)\n/
/** RFC 9110 5.5: characters that a field value may have. */
const IS_VALUE = Uint8Array.from({ length: 256 }, (_, code) => Number(code === 0x09 || (code >= 0x20 && code !== 0x7f)))

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20

/** Parses a head. `end` is the end of its last line, before the blank line. */
export function parseHead(text: string, end = text.length): ResponseHead {
  const from = text.indexOf('\n') + 1
  const version = from > 0 ? versionOf(text, from - 2) : undefined
  if (version === undefined) throw new InvalidResponse('its status line is not valid')
  const status = Number(text.slice(STATUS_AT, STATUS_AT + 3))
  const reason = text.slice(STATUS_AT + 4, from - 2)
  const names: FieldName[] = []
  const fields = parseFields(text, from, end, names)
  const lines = areSpaced(text, from, fields) ? text.slice(from, end) : undefined
  const { connection, isChunked, contentLength, hasDisposition, keepsAlive, keepAliveMs } = framing(fields, names, version === '1.1')
  return {
    version,
    status,
    reason,
    fields,
    names,
    lines,
    connection,
    isChunked,
    contentLength,
    hasDisposition,
    isEventStream: isEventStream(fields),
    keepsAlive,
    keepAliveMs,
  }
}

/** Position of the status, after `HTTP/1.1` and a space. */
const STATUS_AT = 9

/** Checks a status line (RFC 9112 4): a version, a status of three digits and an optional reason. Returns undefined if it is malformed. */
function versionOf(text: string, end: number): '1.0' | '1.1' | undefined {
  const minor = text.charCodeAt(7) - 0x30
  if ((minor !== 0 && minor !== 1) || !text.startsWith('HTTP/1.') || text.charCodeAt(8) !== SPACE) return undefined
  const hundreds = text.charCodeAt(STATUS_AT) - 0x30
  if (!(hundreds >= 1 && hundreds <= 9) || !isDigit(text.charCodeAt(10)) || !isDigit(text.charCodeAt(11))) return undefined
  if (end !== 12 && text.charCodeAt(12) !== SPACE) return undefined
  if (text.charCodeAt(end) !== CR || endOfValue(text, 12) !== end) return undefined
  return minor === 1 ? '1.1' : '1.0'
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** Reads trailers with all their line ends, but without the blank line. Returns names and values in turn. */
export function parseTrailers(text: string): string[] {
  return parseFields(text, 0, text.length, [])
}

/** Reads the field lines of a head or of trailers, and adds their names to `names`. */
function parseFields(text: string, from: number, to: number, names: FieldName[]): string[] {
  const fields: string[] = []
  for (let start = from; start < to; ) {
    const colon = text.indexOf(':', start)
    const name = text.slice(start, colon)
    const known = fieldName(name)
    // RFC 9112 5.1, 5.2: no white space before the colon, no folded lines
    if (colon < 0 || !known.isValid) throw invalidField(text, 'a header field has no valid name')
    const end = endOfValue(text, colon + 1)
    if (text.charCodeAt(end) !== CR || text.charCodeAt(end + 1) !== LF) throw invalidField(text, 'a header field has no end')
    names.push(known)
    fields.push(name, trimmed(text, colon + 1, end))
    start = end + 2
  }
  return fields
}

function invalidField(text: string, message: string): InvalidResponse {
  return new InvalidResponse(BAD_TEXT.test(text) ? 'a header field has control characters' : message)
}

function endOfValue(text: string, from: number): number {
  let at = from
  while (at < text.length && IS_VALUE[text.charCodeAt(at)] === 1) at++
  return at
}

/** Whether each line is written as `Name: value`, with exactly this one space around the value. */
function areSpaced(text: string, from: number, fields: readonly string[]): boolean {
  let at = from
  for (let i = 0; i < fields.length; i += 2) {
    const nameEnd = at + fields[i]!.length
    at = nameEnd + fields[i + 1]!.length + 4
    if (text.charCodeAt(nameEnd + 1) !== SPACE || text.charCodeAt(at - 1) !== LF) return false
  }
  return true
}

function trimmed(text: string, from: number, end: number): string {
  while (from < end && isSpace(text.charCodeAt(from))) from++
  while (end > from && isSpace(text.charCodeAt(end - 1))) end--
  return text.slice(from, end)
}

function isSpace(code: number): boolean {
  return code === SPACE || code === 0x09
}

type Framing = Pick<ResponseHead, 'connection' | 'isChunked' | 'contentLength' | 'hasDisposition' | 'keepsAlive' | 'keepAliveMs'>

/** Determines where the body ends (RFC 9112 6.3) and whether the connection can be reused. */
function framing(fields: readonly string[], names: readonly FieldName[], isHttp11: boolean): Framing {
  let connection = ''
  let isChunked = false
  let contentLength: number | undefined
  let hasDisposition = false
  let keepsAlive = isHttp11
  let keepAliveMs: number | undefined
  for (let i = 0; i < names.length; i++) {
    if (names[i]!.isPlainInResponse) continue
    const value = fields[2 * i + 1]!
    switch (names[i]!.lower) {
      case 'content-length':
        if (!/^\d{1,15}$/.test(value) || (contentLength !== undefined && contentLength !== Number(value))) {
          throw new InvalidResponse('its Content-Length is not valid')
        }
        contentLength = Number(value)
        break
      case 'transfer-encoding':
        if (isChunked || !isHttp11 || value.toLowerCase() !== 'chunked') throw new InvalidResponse('its Transfer-Encoding is not chunked')
        isChunked = true
        break
      case 'connection':
        connection = connection === '' ? value : `${connection},${value}`
        if (hasMember(value, 'close')) keepsAlive = false
        else if (!isHttp11 && hasMember(value, 'keep-alive')) keepsAlive = true
        break
      case 'keep-alive':
        keepAliveMs = keepAliveHint(value)
        break
      case 'content-disposition':
        hasDisposition = true
        break
    }
  }
  if (isChunked && contentLength !== undefined) throw new InvalidResponse('it has both Content-Length and Transfer-Encoding')
  return { connection, isChunked, contentLength, hasDisposition, keepsAlive, keepAliveMs }
}

function keepAliveHint(value: string): number | undefined {
  const [, seconds] = /(?:^|,)\s*timeout=(\d{1,6})/i.exec(value) ?? []
  return seconds === undefined ? undefined : Number(seconds) * 1000
}

/** Whether a response with these fields is a stream of server-sent events. */
function isEventStream(fields: readonly string[]): boolean {
  return /^text\/event-stream\s*(?:;|$)/i.test(headerValue(fields, 'content-type') ?? '')
}
