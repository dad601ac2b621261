import type { Door, Question } from '../../decide/question.ts'
import type { Reason } from '../../engine/reasons.ts'
import { endOfTarget, isSameName, isSameText } from '../../http1/characters.ts'
import { isHost } from '../../http1/framing.ts'
import { FIELD_INTS, HeadReader, MAX_HEAD_BYTES, unendedHead } from '../../http1/head-reader.ts'
import {
  type ByLength,
  byLength,
  bytesOf,
  endOfMethod,
  endOfSame,
  endOfVersion,
  INCOMPLETE,
  includes,
  OTHER,
  PLAIN_METHODS,
} from '../../http1/request-line.ts'
import { type FieldValue, REPEATED, type RequestView, withNextLine } from '../../request/view.ts'
import { hostEnd, hostStart, type OriginalField, QUESTION_SHAPES, type QuestionShape } from '../question-shapes.ts'

const ABSENT = -1
/** Reserved entries in front of the fields, for what is read from the request line or is only part of a field. They have no name. */
const READ_METHOD = 0
const READ_URI = FIELD_INTS
const READ_HOST = 2 * FIELD_INTS
const RESERVED_FIELDS = 3
const FIRST_FIELD = RESERVED_FIELDS * FIELD_INTS
const NO_BYTES = new Uint8Array(0)

/**
 * Reads the heads of plain questions, and is itself the question that the last one asks; it is reused for the next. Anything that is not
 * certainly a question of a known shape without a body is OTHER; nothing is repaired.
 */
export class QuestionHead implements Question, RequestView {
  #bytes: Uint8Array = NO_BYTES
  #end = 0
  /** Start of the head that was read last. */
  #headAt = 0
  #headEnd = 0
  /** The bytes as a latin1 string, which is how `node:http` reads them. */
  #text = ''
  readonly #fields = new HeadReader(RESERVED_FIELDS)
  readonly #startLine = new StartLine()
  // Entries of `#fields`.
  #ownHost = ABSENT
  #method = ABSENT
  #uri = ABSENT
  #host = ABSENT
  #repeated: Reason | undefined

  /** Sets the bytes, up to `end`, from which heads are read. */
  begin(bytes: Buffer, end: number): void {
    this.#bytes = bytes
    this.#end = end
    this.#text = bytes.toString('latin1', 0, end)
  }

  /** Copies the head that was read last. Must be called if the bytes may change while that head is still in use. */
  keepHead(): void {
    const from = this.#headAt
    const head = Buffer.from(this.#bytes.subarray(from, this.#headEnd))
    this.#fields.moveBack(from)
    this.#bytes = head
    this.#text = head.toString('latin1')
    this.#end = head.length
    this.#headAt = 0
    this.#headEnd = head.length
  }

  /** Releases what was read. */
  clear(): void {
    this.#bytes = NO_BYTES
    this.#end = 0
    this.#text = ''
    this.#fields.shrink()
    this.#forget()
  }

  /** Reads the head that begins at `from`; returns where it ends, INCOMPLETE or OTHER. */
  read(from: number): number {
    const bytes = this.#bytes
    const limit = Math.min(this.#end, from + MAX_HEAD_BYTES)
    const begun = this.#startLine.read(bytes, from, limit)
    if (begun < 0) return begun === INCOMPLETE ? unendedHead(from, this.#end) : OTHER
    this.#forget()
    const { knownFields, isInLine, isOwnHost } = this.#startLine.wireShape
    const end = this.#fields.read(bytes, begun, limit)
    if (end === OTHER || this.#fields.contentLength > 0 || this.#fields.isChunked || !this.#noteFields(knownFields)) return OTHER
    if (end === INCOMPLETE) return unendedHead(from, this.#end)
    if (isInLine) this.#readStartLine(from)
    this.#headAt = from
    this.#headEnd = end
    if (isOwnHost) this.#host = this.#ownHost
    return this.#ownHost === ABSENT || !isHost(this.#value(this.#ownHost)) ? OTHER : end
  }

  get door(): Door {
    return this.#startLine.wireShape.shape.door
  }

  original(): RequestView | Reason {
    if (this.#repeated !== undefined) return this.#repeated
    const { method, uri, host } = this.#startLine.wireShape.shape
    if (method?.missing !== undefined && this.#isEmpty(this.#method)) return method.missing
    if (uri?.missing !== undefined && this.#isEmpty(this.#uri)) return uri.missing
    if (host?.missing !== undefined && this.#isEmpty(this.#host)) return host.missing
    return host === undefined && !this.#readUrl() ? 'bad_original_url' : this
  }

  get method(): string {
    return this.#original(this.#method)
  }

  get uri(): string {
    return this.#original(this.#uri)
  }

  get host(): string {
    return this.#original(this.#host)
  }

  header(name: string): FieldValue {
    const { offsets, used } = this.#fields
    let value: string | undefined
    for (let field = FIRST_FIELD; field < used; field += FIELD_INTS) {
      if (offsets[field + 1]! - offsets[field]! !== name.length || !isSameText(this.#bytes, offsets[field]!, name)) continue
      if (value === undefined) {
        value = this.#value(field)
        continue
      }
      const longer = withNextLine(name, value, this.#value(field))
      if (longer === REPEATED) return REPEATED
      value = longer
    }
    return value
  }

  cookie(): string | undefined {
    return this.header('cookie') as string | undefined
  }

  traceparent(): FieldValue {
    return this.header('traceparent')
  }

  #forget(): void {
    this.#ownHost = ABSENT
    this.#method = ABSENT
    this.#uri = ABSENT
    this.#host = ABSENT
    this.#repeated = undefined
  }

  #readStartLine(from: number): void {
    const { wireShape, methodEnd, restAt, restEnd } = this.#startLine
    if (wireShape.shape.method === undefined) this.#method = this.#locate(READ_METHOD, from, methodEnd)
    if (wireShape.shape.uri === undefined) this.#uri = this.#locate(READ_URI, restAt, restEnd)
  }

  /** Returns false if the URI is not an absolute URL. */
  #readUrl(): boolean {
    const { offsets } = this.#fields
    const urlEnd = offsets[this.#uri + 3]!
    const at = hostStart(this.#text, offsets[this.#uri + 2]!, urlEnd)
    const end = at < 0 ? -1 : hostEnd(this.#text, at, urlEnd)
    if (end < 0) return false
    this.#host = this.#locate(READ_HOST, at, end)
    this.#uri = this.#locate(READ_URI, end, urlEnd)
    return true
  }

  #locate(field: number, at: number, end: number): number {
    const { offsets } = this.#fields
    offsets[field + 2] = at
    offsets[field + 3] = end
    return field
  }

  /** Returns false if a field is repeated whose repetition `node:http` must judge. */
  #noteFields(knownFields: ByLength<KnownField>): boolean {
    const { offsets, used } = this.#fields
    for (let field = FIRST_FIELD; field < used; field += FIELD_INTS) {
      const nameAt = offsets[field]!
      const length = offsets[field + 1]! - nameAt
      const known = length < knownFields.length ? knownFields[length] : undefined
      if (known !== undefined && !this.#note(field, nameAt, known)) return false
    }
    return true
  }

  #note(field: number, nameAt: number, known: readonly KnownField[]): boolean {
    for (let i = 0; i < known.length; i++) {
      if (isSameName(this.#bytes, nameAt, known[i]!.name)) return this.#noteKnown(field, known[i]!)
    }
    return true
  }

  #noteKnown(field: number, { meaning, repeated }: KnownField): boolean {
    switch (meaning) {
      case OWN_HOST:
        if (this.#ownHost !== ABSENT) return false
        this.#ownHost = field
        return true
      case ORIGINAL_METHOD:
        if (this.#method !== ABSENT) this.#repeated ??= repeated
        this.#method = field
        return true
      case ORIGINAL_URI:
        if (this.#uri !== ABSENT) this.#repeated ??= repeated
        this.#uri = field
        return true
      case ORIGINAL_HOST:
        if (this.#host !== ABSENT) this.#repeated ??= repeated
        this.#host = field
        return true
      default:
        return true
    }
  }

  #isEmpty(field: number): boolean {
    const { offsets } = this.#fields
    return field === ABSENT || offsets[field + 2] === offsets[field + 3]
  }

  #original(field: number): string {
    return field === ABSENT ? '' : this.#value(field)
  }

  #value(field: number): string {
    const { offsets } = this.#fields
    return this.#text.slice(offsets[field + 2]!, offsets[field + 3]!)
  }
}

const SLASH = 0x2f
const QUESTION_MARK = 0x3f

/** Reads the request lines of questions, and keeps the parts of the last one. */
class StartLine {
  wireShape: WireShape = WIRE_SHAPES[0]!
  // Positions of its parts, for shapes that read the original request from the request line.
  methodEnd = 0
  /** Start of what follows the shape's path in the target. */
  restAt = 0
  restEnd = 0

  /** Returns where the line that begins at `from` ends, INCOMPLETE or OTHER. */
  read(bytes: Uint8Array, from: number, limit: number): number {
    for (let i = 0; i < WIRE_SHAPES.length; i++) {
      const { usualLine } = WIRE_SHAPES[i]!
      if (usualLine === undefined || endOfSame(bytes, from, usualLine, limit) < from + usualLine.length) continue
      this.wireShape = WIRE_SHAPES[i]!
      return from + usualLine.length
    }
    return this.#readAny(bytes, from, limit)
  }

  #readAny(bytes: Uint8Array, from: number, limit: number): number {
    const methodEnd = endOfMethod(bytes, from, limit)
    if (methodEnd < 0) return methodEnd
    const targetAt = methodEnd + 1
    for (let i = 0; i < WIRE_SHAPES.length; i++) {
      const wireShape = WIRE_SHAPES[i]!
      const { path, methods, shape } = wireShape
      const pathEnd = endOfSame(bytes, targetAt, path, limit)
      if (pathEnd === limit) return INCOMPLETE
      if (pathEnd < targetAt + path.length) continue
      if (methods !== PLAIN_METHODS && !includes(methods, bytes, from, methodEnd)) return OTHER
      const next = bytes[pathEnd]
      const hasRest = next === QUESTION_MARK || (next === SLASH && shape.uri === undefined)
      const restEnd = hasRest ? endOfTarget(bytes, pathEnd, limit) : pathEnd
      const end = endOfVersion(bytes, restEnd, limit)
      if (end < 0) return end
      this.wireShape = wireShape
      this.methodEnd = methodEnd
      this.restAt = pathEnd
      this.restEnd = restEnd
      return end
    }
    return OTHER
  }
}

/** Meanings of the fields that the fast wire knows. */
const OWN_HOST = 0
const ORIGINAL_METHOD = 1
const ORIGINAL_URI = 2
const ORIGINAL_HOST = 3

interface KnownField {
  /** Name in lower case. */
  readonly name: Uint8Array
  readonly meaning: number
  /** Undefined if `node:http` judges a repeated field. */
  readonly repeated: Reason | undefined
}

/** A question's shape in the form in which the fast wire compares it with incoming bytes. */
interface WireShape {
  readonly shape: QuestionShape
  /** Whether the request line has parts of the original request, so that it differs for each. */
  readonly isInLine: boolean
  /** The line that nearly all questions have unless `isInLine`; it is compared as a whole. */
  readonly usualLine: Uint8Array | undefined
  readonly path: Uint8Array
  readonly methods: ByLength<Uint8Array>
  readonly knownFields: ByLength<KnownField>
  /** Whether the question's own Host is the host of the original request. */
  readonly isOwnHost: boolean
}

const HOST = 'host'

const WIRE_SHAPES: readonly WireShape[] = QUESTION_SHAPES.map((shape) => {
  const { path, methods, method, uri, host } = shape
  const isInLine = method === undefined || uri === undefined
  return {
    shape,
    isInLine,
    usualLine: isInLine ? undefined : bytesOf(`${methods?.[0] ?? 'GET'} ${path} HTTP/1.1\r\n`),
    path: bytesOf(path),
    methods: methods === undefined ? PLAIN_METHODS : byLength(methods.map(bytesOf), ({ length }) => length),
    knownFields: byLength(knownFields(shape), ({ name }) => name.length),
    isOwnHost: host?.name === HOST,
  }
})

function knownFields({ method, uri, host }: QuestionShape): KnownField[] {
  const originals = [
    [method, ORIGINAL_METHOD],
    [uri, ORIGINAL_URI],
    [host?.name === HOST ? undefined : host, ORIGINAL_HOST],
  ] as const
  const own = { name: bytesOf(HOST), meaning: OWN_HOST, repeated: undefined }
  return [...originals.flatMap(([field, meaning]) => (field === undefined ? [] : [originalField(field, meaning)])), own]
}

function originalField({ name, repeated }: OriginalField, meaning: number): KnownField {
  return { name: bytesOf(name), meaning, repeated }
}
