/** Kinds of header fields. Of most fields we only need their length and whether they are well-formed. */
export const OTHER_FIELD = 0
export const METHOD = 1
export const PATH = 2
export const SCHEME = 3
const AUTHORITY = 4
export const CONTENT_TYPE = 5
export const TIMEOUT = 6
export const ENCODING = 7
export const TE = 8
export const CONTENT_LENGTH = 9
export const TRACEPARENT = 10
/** RFC 9113 8.2.2: connection-specific fields are not allowed in HTTP/2. */
export const CONNECTION_FIELD = 11
/** A name that no request field may have. */
export const MALFORMED = 12
export const KINDS = 13

/** Stands for a value with characters that no field may have. */
export const BAD_VALUE = '\0'

const NAMES: Readonly<Record<string, number>> = {
  ':method': METHOD,
  ':path': PATH,
  ':scheme': SCHEME,
  ':authority': AUTHORITY,
  'content-type': CONTENT_TYPE,
  'grpc-timeout': TIMEOUT,
  'grpc-encoding': ENCODING,
  te: TE,
  'content-length': CONTENT_LENGTH,
  traceparent: TRACEPARENT,
  connection: CONNECTION_FIELD,
  'keep-alive': CONNECTION_FIELD,
  'proxy-connection': CONNECTION_FIELD,
  'transfer-encoding': CONNECTION_FIELD,
  upgrade: CONNECTION_FIELD,
}

interface KnownName {
  readonly bytes: Uint8Array
  readonly kind: number
}

const NAMES_BY_LENGTH: readonly (readonly KnownName[])[] = namesByLength()
const NO_NAMES: readonly KnownName[] = []

export function isPseudo(kind: number): boolean {
  return kind >= METHOD && kind <= AUTHORITY
}

/** Whether the value of such a field is ever read. */
export function hasText(kind: number): boolean {
  return kind !== OTHER_FIELD && kind !== AUTHORITY && kind < CONNECTION_FIELD
}

export function kindOfName(bytes: Uint8Array, from: number, to: number): number {
  for (const { bytes: name, kind } of NAMES_BY_LENGTH[to - from] ?? NO_NAMES) {
    let same = 0
    while (same < name.length && bytes[from + same] === name[same]) same++
    if (same === name.length) return kind
  }
  return isFieldName(bytes, from, to) ? OTHER_FIELD : MALFORMED
}

/** Whether a value contains no NUL, LF or CR, which other readers could take for its end (RFC 9113 8.2.1). */
export function isFieldValue(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const byte = bytes[at]!
    if (byte <= CARRIAGE_RETURN && (byte === 0 || byte === LINE_FEED || byte === CARRIAGE_RETURN)) return false
  }
  return true
}

const LINE_FEED = 10
const CARRIAGE_RETURN = 13
/** Characters of RFC 9110 tokens, without capitals. */
const IS_NAME_BYTE = Uint8Array.from({ length: 256 }, (_, byte) => Number(/[!#$%&'*+\-.^_`|~0-9a-z]/.test(String.fromCharCode(byte))))

function isFieldName(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (IS_NAME_BYTE[bytes[at]!] === 0) return false
  return to > from
}

function namesByLength(): KnownName[][] {
  const names: KnownName[][] = []
  for (const [name, kind] of Object.entries(NAMES)) {
    names[name.length] ??= []
    names[name.length]!.push({ bytes: Buffer.from(name, 'latin1'), kind })
  }
  return names
}

/** RFC 7541, appendix A: names, each with its value if it has one. */
const STATIC_FIELDS =
  `:authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|:status=200|:status=204|:status=206|:status=304|` +
  `:status=400|:status=404|:status=500|accept-charset|accept-encoding=gzip, deflate|accept-language|accept-ranges|accept|` +
  `access-control-allow-origin|age|allow|authorization|cache-control|content-disposition|content-encoding|content-language|content-length|` +
  `content-location|content-range|content-type|cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|` +
  `if-unmodified-since|last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|` +
  `set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate`

export const STATIC_TABLE: readonly (readonly [name: string, value: string])[] = STATIC_FIELDS.split('|').map((field) => {
  const [name = '', value = ''] = field.split('=')
  return [name, value]
})

const STATIC = STATIC_TABLE.map(([name, value]) => {
  const bytes = Buffer.from(name)
  const kind = kindOfName(bytes, 0, bytes.length)
  return { kind, nameBytes: name.length, valueBytes: value.length, value: hasText(kind) ? value : '' }
})

/** RFC 7541 4.1: overhead of each table entry, in addition to its name and value. */
export const FIELD_BYTES = 32
/** Initial size of the dynamic table on both sides (RFC 9113 6.5.2); we never announce another one. */
export const MAX_TABLE_BYTES = 4096
/** Capacity of the ring: a power of two, and more than the 128 entries of at least 32 bytes that fit into the table. */
const SLOTS = 256

/**
 * The fields that a header block refers to by index: the 61 of the static table, followed by the dynamic table of this connection, newest first.
 * It stores the kind and the lengths of each field, and the value only of those that are read.
 */
export class HpackTable {
  readonly #kinds = new Uint8Array(SLOTS)
  readonly #nameBytes = new Int32Array(SLOTS)
  readonly #valueBytes = new Int32Array(SLOTS)
  readonly #values: string[] = new Array(SLOTS).fill('')
  /** Number of fields ever added; the ring's write position follows from it. */
  #added = 0
  #count = 0
  #bytes = 0
  #maxBytes = MAX_TABLE_BYTES

  has(index: number): boolean {
    return index > 0 && index <= STATIC.length + this.#count
  }

  kind(index: number): number {
    return index <= STATIC.length ? STATIC[index - 1]!.kind : this.#kinds[this.#slot(index)]!
  }

  nameBytes(index: number): number {
    return index <= STATIC.length ? STATIC[index - 1]!.nameBytes : this.#nameBytes[this.#slot(index)]!
  }

  valueBytes(index: number): number {
    return index <= STATIC.length ? STATIC[index - 1]!.valueBytes : this.#valueBytes[this.#slot(index)]!
  }

  value(index: number): string {
    return index <= STATIC.length ? STATIC[index - 1]!.value : this.#values[this.#slot(index)]!
  }

  /** Evicts the oldest fields to make room. A field larger than the table empties it (RFC 7541 4.4). */
  add(kind: number, nameBytes: number, valueBytes: number, value: string): void {
    const bytes = nameBytes + valueBytes + FIELD_BYTES
    this.#shrinkTo(this.#maxBytes - bytes)
    if (bytes > this.#maxBytes) return
    const slot = this.#added++ % SLOTS
    this.#kinds[slot] = kind
    this.#nameBytes[slot] = nameBytes
    this.#valueBytes[slot] = valueBytes
    this.#values[slot] = value
    this.#count++
    this.#bytes += bytes
  }

  resize(maxBytes: number): void {
    this.#maxBytes = maxBytes
    this.#shrinkTo(maxBytes)
  }

  #shrinkTo(bytes: number): void {
    while (this.#count > 0 && this.#bytes > bytes) {
      const oldest = (this.#added - this.#count) % SLOTS
      this.#bytes -= this.#nameBytes[oldest]! + this.#valueBytes[oldest]! + FIELD_BYTES
      this.#values[oldest] = ''
      this.#count--
    }
  }

  #slot(index: number): number {
    return (this.#added - (index - STATIC.length)) % SLOTS
  }
}
