/** What a field of a request's head is to us. All that matters of most fields is how long they are, and that they are well-formed. */
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
/** RFC 9113 8.2.2: fields of a connection have no place in HTTP/2. */
export const CONNECTION_FIELD = 11
/** No name that a request may have. */
export const MALFORMED = 12
export const KINDS = 13

/** A value with characters that no field may have. */
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

/** Whether anybody reads its value. */
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

/** Whether a value has none of the characters that could end it elsewhere (RFC 9113 8.2.1). */
export function isFieldValue(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const byte = bytes[at]!
    if (byte <= CARRIAGE_RETURN && (byte === 0 || byte === LINE_FEED || byte === CARRIAGE_RETURN)) return false
  }
  return true
}

const LINE_FEED = 10
const CARRIAGE_RETURN = 13
/** RFC 9110's tokens without capitals. */
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
