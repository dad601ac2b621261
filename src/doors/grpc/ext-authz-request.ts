import type { Question } from '../../decide/question.ts'
import type { Reason } from '../../engine/reasons.ts'
import { isSameText } from '../../http1/characters.ts'
import { type FieldValue, REPEATED, type RequestView, withNextLine } from '../../request/view.ts'
import { ProtobufReader } from './protobuf-reader.ts'

// Numbers of the fields that are read, by message (envoy/service/auth/v3, envoy/config/core/v3).
const CHECK_ATTRIBUTES = 1
const ATTRIBUTES_SOURCE = 1
const ATTRIBUTES_REQUEST = 4
const ATTRIBUTES_CONTEXT_EXTENSIONS = 10
const PEER_ADDRESS = 1
const ADDRESS_SOCKET = 1
const SOCKET_ADDRESS = 2
const REQUEST_HTTP = 2
const HTTP_METHOD = 2
const HTTP_HEADERS = 3
const HTTP_PATH = 4
const HTTP_HOST = 5
const HTTP_HEADER_MAP = 13
const HEADER_MAP_HEADERS = 1
const ENTRY_NAME = 1
const ENTRY_VALUE = 2
const HEADER_RAW_VALUE = 3

const NO_BYTES = Buffer.alloc(0)
const SPACE = 0x20
const TAB = 0x09

/**
 * Reads CheckRequest messages, and is itself the question that the last one asks; it is reused for the next. Bodies and other fields that no
 * rule can read are skipped. All but context extensions are read as latin1 strings, as over HTTP, so that a caller has one counter at all doors.
 */
export class ExtAuthzRequest implements Question, RequestView {
  readonly door = 'ext_authz_grpc'
  readonly #reader = new ProtobufReader()
  #bytes: Buffer = NO_BYTES
  /** Entries of `headers`, where repeated fields are joined by commas. */
  readonly #joinedHeaders = new MessageEntries()
  /** Entries of `header_map`, where fields are as they were received. */
  readonly #rawHeaders = new MessageEntries()
  readonly #context = new MessageEntries()
  method = ''
  uri = ''
  host = ''
  peer: string | undefined
  /** The `traceparent` of the gRPC call, whose span is nearer than that of the original request. */
  callTraceparent = ''

  /** Throws MalformedMessage if the message cannot be read. */
  read(message: Uint8Array): void {
    this.#forget()
    const reader = this.#reader
    reader.begin(message)
    this.#bytes = reader.bytes
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === CHECK_ATTRIBUTES) this.#readAttributes()
      else reader.skip()
    }
  }

  /** Copies the message. Must be called if its bytes may change while the question is still in use. */
  keepMessage(): void {
    this.#bytes = Buffer.from(this.#bytes)
  }

  /** Releases the message. */
  clear(): void {
    this.#forget()
    this.#reader.clear()
    this.#bytes = NO_BYTES
    this.#joinedHeaders.shrink()
    this.#rawHeaders.shrink()
    this.#context.shrink()
  }

  original(): RequestView | Reason {
    if (this.method === '') return 'missing_original_method'
    if (this.uri === '') return 'missing_original_uri'
    if (this.host === '') {
      const authority = this.header(':authority')
      if (authority === REPEATED) return 'repeated_original_host'
      this.host = authority ?? ''
    }
    return this
  }

  /** In `headers`, a comma may be where the lines of a repeated field were joined, so most values with one count as REPEATED. */
  header(name: string): FieldValue {
    const isJoined = this.#rawHeaders.isEmpty
    const entries = isJoined ? this.#joinedHeaders : this.#rawHeaders
    let entry = entries.find(this.#bytes, name, NO_ENTRY)
    if (entry === NO_ENTRY) return undefined
    let value: FieldValue = this.#fieldText(entries, entry)
    for (;;) {
      entry = entries.find(this.#bytes, name, entry)
      if (entry === NO_ENTRY) break
      value = withNextLine(name, value, this.#fieldText(entries, entry))
      if (value === REPEATED) return REPEATED
    }
    return isJoined && value.includes(',') && !mayHaveCommas(name) ? REPEATED : value
  }

  cookie(): string | undefined {
    return this.header('cookie') as string | undefined // its lines are joined, so it is never REPEATED
  }

  traceparent(): FieldValue {
    return this.callTraceparent === '' ? this.header('traceparent') : this.callTraceparent
  }

  context(name: string): FieldValue {
    const entries = this.#context
    const entry = entries.findExactly(this.#bytes, name, NO_ENTRY)
    if (entry === NO_ENTRY) return undefined
    if (entries.findExactly(this.#bytes, name, entry) !== NO_ENTRY) return REPEATED
    return this.#bytes.toString('utf8', entries.valueAt(entry), entries.valueEnd(entry))
  }

  #forget(): void {
    this.#joinedHeaders.clear()
    this.#rawHeaders.clear()
    this.#context.clear()
    this.method = ''
    this.uri = ''
    this.host = ''
    this.peer = undefined
    this.callTraceparent = ''
  }

  #readAttributes(): void {
    const reader = this.#reader
    const end = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === ATTRIBUTES_REQUEST) this.#readRequest()
      else if (field === ATTRIBUTES_SOURCE) this.#readSource()
      else if (field === ATTRIBUTES_CONTEXT_EXTENSIONS) this.#readEntry(this.#context)
      else reader.skip()
    }
    reader.leave(end)
  }

  #readSource(): void {
    const reader = this.#reader
    const end = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === PEER_ADDRESS) this.#readAddress()
      else reader.skip()
    }
    reader.leave(end)
  }

  /** Only a socket address is the address of a client; any other, such as a pipe, leaves `peer` undefined. */
  #readAddress(): void {
    const reader = this.#reader
    const end = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      this.peer = undefined
      if (field === ADDRESS_SOCKET) this.#readSocketAddress()
      else reader.skip()
    }
    reader.leave(end)
  }

  #readSocketAddress(): void {
    const reader = this.#reader
    const end = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === SOCKET_ADDRESS) this.peer = reader.byteText() || undefined
      else reader.skip()
    }
    reader.leave(end)
  }

  #readRequest(): void {
    const reader = this.#reader
    const end = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === REQUEST_HTTP) this.#readHttp()
      else reader.skip()
    }
    reader.leave(end)
  }

  #readHttp(): void {
    const reader = this.#reader
    const end = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      switch (field) {
        case HTTP_METHOD:
          this.method = reader.byteText()
          break
        case HTTP_HEADERS:
          this.#readEntry(this.#joinedHeaders)
          break
        case HTTP_PATH:
          this.uri = reader.byteText()
          break
        case HTTP_HOST:
          this.host = reader.byteText()
          break
        case HTTP_HEADER_MAP:
          this.#readHeaderMap()
          break
        default:
          reader.skip()
      }
    }
    reader.leave(end)
  }

  #readHeaderMap(): void {
    const reader = this.#reader
    const end = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === HEADER_MAP_HEADERS) this.#readEntry(this.#rawHeaders)
      else reader.skip()
    }
    reader.leave(end)
  }

  /** Reads a map entry or a HeaderValue, which number name and value alike. A raw value, if there is one, replaces the value. */
  #readEntry(entries: MessageEntries): void {
    const reader = this.#reader
    const end = reader.enter()
    let nameAt = 0
    let nameEnd = 0
    let valueAt = 0
    let valueEnd = 0
    let rawAt = 0
    let rawEnd = 0
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === ENTRY_NAME) {
        nameAt = reader.value()
        nameEnd = reader.valueEnd
      } else if (field === ENTRY_VALUE) {
        valueAt = reader.value()
        valueEnd = reader.valueEnd
      } else if (field === HEADER_RAW_VALUE && entries === this.#rawHeaders) {
        rawAt = reader.value()
        rawEnd = reader.valueEnd
      } else reader.skip()
    }
    reader.leave(end)
    if (rawEnd > rawAt) entries.add(nameAt, nameEnd, rawAt, rawEnd)
    else entries.add(nameAt, nameEnd, valueAt, valueEnd)
  }

  /** Returns a field's value without surrounding white space, which is not part of it (RFC 9110 5.5). */
  #fieldText(entries: MessageEntries, entry: number): string {
    const bytes = this.#bytes
    let from = entries.valueAt(entry)
    let to = entries.valueEnd(entry)
    while (from < to && (bytes[from] === SPACE || bytes[from] === TAB)) from++
    while (to > from && (bytes[to - 1] === SPACE || bytes[to - 1] === TAB)) to--
    return bytes.toString('latin1', from, to)
  }
}

/** Whether a single line of this field usually contains commas, or, as in X-Forwarded-For, is a list. */
function mayHaveCommas(name: string): boolean {
  return name === 'x-forwarded-for' || name === 'cookie' || name === 'user-agent' || name === 'accept' || name.startsWith('accept-')
}

/** Integers for each entry: start and end of its name, start and end of its value. */
const ENTRY_INTS = 4
const USUAL_ENTRIES = 32

/** Returned by `find` if there is no further entry. */
const NO_ENTRY = -1

/** Names and values of a message as offsets into its bytes. Nothing is copied until it is asked for. */
class MessageEntries {
  #offsets = new Int32Array(USUAL_ENTRIES * ENTRY_INTS)
  /** Number of integers of `#offsets` in use. */
  #used = 0

  get isEmpty(): boolean {
    return this.#used === 0
  }

  add(nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): void {
    const entry = this.#used
    if (entry === this.#offsets.length) this.#grow()
    const offsets = this.#offsets
    offsets[entry] = nameAt
    offsets[entry + 1] = nameEnd
    offsets[entry + 2] = valueAt
    offsets[entry + 3] = valueEnd
    this.#used = entry + ENTRY_INTS
  }

  /** Returns the next entry after `entry` with this lower-case name, in whatever case the message has it. The search begins with NO_ENTRY. */
  find(bytes: Uint8Array, name: string, entry: number): number {
    const offsets = this.#offsets
    for (let next = after(entry); next < this.#used; next += ENTRY_INTS)
      if (offsets[next + 1]! - offsets[next]! === name.length && isSameText(bytes, offsets[next]!, name)) return next
    return NO_ENTRY
  }

  /** Returns the next entry after `entry` with exactly this name, which may have any characters. */
  findExactly(bytes: Buffer, name: string, entry: number): number {
    const offsets = this.#offsets
    for (let next = after(entry); next < this.#used; next += ENTRY_INTS)
      if (bytes.toString('utf8', offsets[next], offsets[next + 1]) === name) return next
    return NO_ENTRY
  }

  valueAt(entry: number): number {
    return this.#offsets[entry + 2]!
  }

  valueEnd(entry: number): number {
    return this.#offsets[entry + 3]!
  }

  clear(): void {
    this.#used = 0
  }

  /** Releases memory beyond what usual messages need. */
  shrink(): void {
    this.#used = 0
    if (this.#offsets.length > USUAL_ENTRIES * ENTRY_INTS) this.#offsets = new Int32Array(USUAL_ENTRIES * ENTRY_INTS)
  }

  #grow(): void {
    const larger = new Int32Array(this.#offsets.length * 2)
    larger.set(this.#offsets)
    this.#offsets = larger
  }
}

function after(entry: number): number {
  return entry === NO_ENTRY ? 0 : entry + ENTRY_INTS
}
