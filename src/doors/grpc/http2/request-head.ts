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
/** Stands for a field that came more than once. Like the joined values it is invalid, but it is not as long as the client likes. */
const REPEATED = ', '
const LENGTH_FORMAT = /^[0-9]{1,15}$/

/** The header fields or trailers of one request. One object is reused for all requests of a worker. */
export class RequestHead implements CallHead {
  method = ''
  path = ''
  contentType = ''
  timeout = ''
  encoding = ''
  traceparent = ''
  /** -1 if the request does not state it. */
  contentLength = UNKNOWN_LENGTH
  /** Whether the request is malformed by RFC 9113 8.1.1, so that its stream must be reset. */
  isMalformed = false
  /** Size of the fields as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
  bytes = 0
  #isTrailers = false
  /** One bit for each kind of field that has come. */
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

  /** Must be called after the last field. */
  end(): void {
    if (!this.#isTrailers && ((this.#seen & REQUIRED) !== REQUIRED || this.path === '')) this.isMalformed = true
  }

  /** RFC 9113 8.3: each pseudo-header comes at most once, before all regular fields, and never in trailers. */
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
