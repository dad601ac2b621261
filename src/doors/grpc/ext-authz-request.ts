import type { Question } from '../../decide/question.ts'
import type { Reason } from '../../engine/reasons.ts'
import { isSameText } from '../../http1/characters.ts'
import { type FieldValue, REPEATED, type RequestView, withNextLine } from '../../request/view.ts'
import { ProtobufReader } from './protobuf-reader.ts'

// The fields that are read, by message (envoy/service/auth/v3, envoy/config/core/v3).
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
 * Reads CheckRequest messages, and is the question that the last of them asks; it is used again for the next. Bodies and all else that no
 * rule can read are skipped. Texts are read a character a byte, as on HTTP: a caller has one counter, whatever door asks.
 */
export class ExtAuthzRequest implements Question, RequestView {
  readonly door = 'ext_authz_grpc'
  readonly #reader = new ProtobufReader()
  #bytes: Buffer = NO_BYTES
  /** `headers`: repeated fields are joined by commas. */
  readonly #joinedHeaders = new MessageEntries()
  /** `header_map`: fields as they came. */
  readonly #rawHeaders = new MessageEntries()
  readonly #context = new MessageEntries()
  method = ''
  uri = ''
  host = ''
  peer: string | undefined
  /** Of the call, whose span is nearer than that of the request. */
  callTraceparent = ''

  /** Throws MalformedMessage. */
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

  /** To be called when the message may change while it is still in use: it is copied. */
  keepMessage(): void {
    this.#bytes = Buffer.from(this.#bytes)
  }

  /** Lets go of what was read. */
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

  /** In `headers`, a comma may separate the lines of a repeated field. */
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
    return this.header('cookie') as string | undefined // its lines are joined
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

  /** Anything but a socket's address, such as a pipe's, is no address of a client. */
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

  /** An entry of a map, or a HeaderValue. Both number name and value alike; a raw value comes in place of the other. */
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

  /** A field's value without the white space around it, which is no part of it (RFC 9110 5.5). */
  #fieldText(entries: MessageEntries, entry: number): string {
    const bytes = this.#bytes
    let from = entries.valueAt(entry)
    let to = entries.valueEnd(entry)
    while (from < to && (bytes[from] === SPACE || bytes[from] === TAB)) from++
    while (to > from && (bytes[to - 1] === SPACE || bytes[to - 1] === TAB)) to--
    return bytes.toString('latin1', from, to)
  }
}

/** Fields whose single line usually has commas, and X-Forwarded-For, which is a list. */
function mayHaveCommas(name: string): boolean {
  return name === 'x-forwarded-for' || name === 'cookie' || name === 'user-agent' || name === 'accept' || name.startsWith('accept-')
}

/** For each entry: where its name begins and ends, where its value begins and ends. */
const ENTRY_INTS = 4
const USUAL_ENTRIES = 32

/** What `find` returns when there is no further entry. */
const NO_ENTRY = -1

/** The names and values of a message, as places in its bytes: nothing is copied before it is asked for. */
class MessageEntries {
  #places = new Int32Array(USUAL_ENTRIES * ENTRY_INTS)
  /** How many integers of `#places` are in use. */
  #used = 0

  get isEmpty(): boolean {
    return this.#used === 0
  }

  add(nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): void {
    const entry = this.#used
    if (entry === this.#places.length) this.#grow()
    const places = this.#places
    places[entry] = nameAt
    places[entry + 1] = nameEnd
    places[entry + 2] = valueAt
    places[entry + 3] = valueEnd
    this.#used = entry + ENTRY_INTS
  }

  /** The next entry after `entry` with this name, which is in lower case; the entry's may be in any. Begin with NO_ENTRY. */
  find(bytes: Uint8Array, name: string, entry: number): number {
    const places = this.#places
    for (let next = after(entry); next < this.#used; next += ENTRY_INTS)
      if (places[next + 1]! - places[next]! === name.length && isSameText(bytes, places[next]!, name)) return next
    return NO_ENTRY
  }

  /** The same with a name of any characters, in its own case. */
  findExactly(bytes: Buffer, name: string, entry: number): number {
    const places = this.#places
    for (let next = after(entry); next < this.#used; next += ENTRY_INTS)
      if (bytes.toString('utf8', places[next], places[next + 1]) === name) return next
    return NO_ENTRY
  }

  valueAt(entry: number): number {
    return this.#places[entry + 2]!
  }

  valueEnd(entry: number): number {
    return this.#places[entry + 3]!
  }

  clear(): void {
    this.#used = 0
  }

  /** Keeps no more memory than usual messages need. */
  shrink(): void {
    this.#used = 0
    if (this.#places.length > USUAL_ENTRIES * ENTRY_INTS) this.#places = new Int32Array(USUAL_ENTRIES * ENTRY_INTS)
  }

  #grow(): void {
    const larger = new Int32Array(this.#places.length * 2)
    larger.set(this.#places)
    this.#places = larger
  }
}

function after(entry: number): number {
  return entry === NO_ENTRY ? 0 : entry + ENTRY_INTS
}
