import type { CallHead } from '../call-head.ts'
import {
  BAD_VALUE,
  CONNECTION_FIELD,
  CONTENT_LENGTH,
  CONTENT_TYPE,
  ENCODING,
  isPseudo,
  MALFORMED,
  METHOD,
  OTHER_FIELD,
  PATH,
  SCHEME,
  TE,
  TIMEOUT,
  TRACEPARENT,
} from './hpack-table.ts'

const UNKNOWN_LENGTH = -1
const REQUIRED = (1 << METHOD) | (1 << PATH) | (1 << SCHEME)
/** A value that came more than once: joined, it would be no valid one either, and as long as the client likes. */
const REPEATED = ', '
const LENGTH_FORMAT = /^[0-9]{1,15}$/

/** The header fields of one request, or its trailers. One is used for all of them. */
export class RequestHead implements CallHead {
  method = ''
  path = ''
  contentType = ''
  timeout = ''
  encoding = ''
  traceparent = ''
  /** -1 where it is not said. */
  contentLength = UNKNOWN_LENGTH
  /** RFC 9113 8.1.1: no request at all. */
  isMalformed = false
  /** As HTTP/2 counts it: SETTINGS_MAX_HEADER_LIST_SIZE. */
  bytes = 0
  #isTrailers = false
  /** A bit for each kind. */
  #seen = 0
  #isPastPseudo = false

  begin(isTrailers: boolean): void {
    this.method = ''
    this.path = ''
    this.contentType = ''
    this.timeout = ''
    this.encoding = ''
    this.traceparent = ''
    this.contentLength = UNKNOWN_LENGTH
    this.isMalformed = false
    this.bytes = 0
    this.#isTrailers = isTrailers
    this.#seen = 0
    this.#isPastPseudo = false
  }

  add(kind: number, value: string, bytes: number): void {
    this.bytes += bytes
    if (value === BAD_VALUE) this.isMalformed = true
    if (kind === OTHER_FIELD) this.#isPastPseudo = true
    else if (isPseudo(kind)) this.#addPseudo(kind, value)
    else this.#addRegular(kind, value)
    this.#seen |= 1 << kind
  }

  /** To be called when all fields are here. */
  end(): void {
    if (!this.#isTrailers && ((this.#seen & REQUIRED) !== REQUIRED || this.path === '')) this.isMalformed = true
  }

  /** RFC 9113 8.3: once each, before all others, and never in trailers. */
  #addPseudo(kind: number, value: string): void {
    if (this.#isTrailers || this.#isPastPseudo || (this.#seen & (1 << kind)) !== 0) this.isMalformed = true
    if (kind === METHOD) this.method = value
    else if (kind === PATH) this.path = value
  }

  #addRegular(kind: number, value: string): void {
    this.#isPastPseudo = true
    const isRepeated = (this.#seen & (1 << kind)) !== 0
    switch (kind) {
      case CONTENT_TYPE:
        if (!isRepeated) this.contentType = value
        break
      case TIMEOUT:
        this.timeout = isRepeated ? REPEATED : value
        break
      case ENCODING:
        this.encoding = isRepeated ? REPEATED : value
        break
      case TRACEPARENT:
        this.traceparent = isRepeated ? REPEATED : value
        break
      case TE:
        if (value !== 'trailers' && value.toLowerCase() !== 'trailers') this.isMalformed = true
        break
      case CONTENT_LENGTH:
        if (isRepeated || !LENGTH_FORMAT.test(value)) this.isMalformed = true
        else this.contentLength = Number(value)
        break
      case CONNECTION_FIELD:
      case MALFORMED:
        this.isMalformed = true
    }
  }
}
