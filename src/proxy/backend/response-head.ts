import { hasMember } from '../../http/list-field.ts'
import { fieldName } from '../field-name.ts'

/** What came is no HTTP/1.1 response. */
export class InvalidResponse extends Error {
  readonly code = 'EDGE_INVALID_RESPONSE'
}

export interface ResponseHead {
  readonly version: '1.0' | '1.1'
  readonly status: number
  readonly reason: string
  /** Names and values in turn, as they came. */
  readonly fields: readonly string[]
  /** The values of Connection, joined by commas. */
  readonly connection: string
  readonly isChunked: boolean
  readonly contentLength: number | undefined
  /** The connection may be used again. */
  readonly keepsAlive: boolean
  /** How long the backend says that it keeps an idle connection. */
  readonly keepAliveMs: number | undefined
}

/** RFC 9112 6.3: whether bytes may follow a head of this status. */
export function hasBody(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/
/** A control character, or half a line end. */
const BAD_TEXT = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)|(?<!\r)\n/

/** Reads a head without its last line end. */
export function parseHead(text: string): ResponseHead {
  const end = lineEnd(text, 0)
  const match = STATUS_LINE.exec(text.slice(0, end))
  if (match === null) throw new InvalidResponse('its status line is not valid')
  const isHttp11 = match[1] === '1'
  const fields = parseFields(text, end + 2)
  const { connection, isChunked, contentLength, keepsAlive, keepAliveMs } = framing(fields, isHttp11)
  const [version, status, reason] = [isHttp11 ? '1.1' : '1.0', Number(match[2]), match[3] ?? ''] as const
  return { version, status, reason, fields, connection, isChunked, contentLength, keepsAlive, keepAliveMs }
}

/** Reads lines of a head or of trailers, from the given place on. */
export function parseFields(text: string, from: number): string[] {
  if (BAD_TEXT.test(text)) throw new InvalidResponse('a header field has control characters')
  const fields: string[] = []
  for (let start = from; start < text.length; ) {
    const end = lineEnd(text, start)
    const colon = text.indexOf(':', start)
    const name = text.slice(start, colon)
    // RFC 9112 5.1, 5.2: no white space before the colon, no folded lines
    if (colon < 0 || colon >= end || !fieldName(name).isValid) throw new InvalidResponse('a header field has no valid name')
    fields.push(name, trimmed(text, colon + 1, end))
    start = end + 2
  }
  return fields
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\r\n', from)
  return end < 0 ? text.length : end
}

function trimmed(text: string, from: number, end: number): string {
  while (from < end && isSpace(text.charCodeAt(from))) from++
  while (end > from && isSpace(text.charCodeAt(end - 1))) end--
  return text.slice(from, end)
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09
}

type Framing = Pick<ResponseHead, 'connection' | 'isChunked' | 'contentLength' | 'keepsAlive' | 'keepAliveMs'>

/** RFC 9112 6.3: where the body ends, and what becomes of the connection. */
function framing(fields: readonly string[], isHttp11: boolean): Framing {
  let connection = ''
  let isChunked = false
  let contentLength: number | undefined
  let keepsAlive = isHttp11
  let keepAliveMs: number | undefined
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!
    const value = fields[i + 1]!
    if (name.length !== 10 && name.length !== 14 && name.length !== 17) continue
    switch (name.toLowerCase()) {
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
    }
  }
  if (isChunked && contentLength !== undefined) throw new InvalidResponse('it has both Content-Length and Transfer-Encoding')
  return { connection, isChunked, contentLength, keepsAlive, keepAliveMs }
}

function keepAliveHint(value: string): number | undefined {
  const [, seconds] = /(?:^|,)\s*timeout=(\d{1,6})/i.exec(value) ?? []
  return seconds === undefined ? undefined : Number(seconds) * 1000
}
