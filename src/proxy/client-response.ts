import { type FieldName, fieldName } from '../http1/field-name.ts'
import { connectionNames, type HeaderList } from '../http1/header-fields.ts'
import { byteText } from '../memory/latin1-text.ts'
import { hasBody, type ResponseHead } from './backend/response-head.ts'
import { type Downstream, type FieldLines, SEPARATORS_LENGTH } from './downstream.ts'
import type { LlmResponse } from './llm/llm-response.ts'
import type { ProxiedRequest } from './proxied-request.ts'

/**
 * The backend's response on its way to the client. Its head waits for the first bytes after it, or for a pause: until then a failure can still be
 * reported instead. Bytes wait for those that follow, so that a response that arrived in one piece is sent in one piece.
 */
export class ClientResponse {
  #downstream!: Downstream
  #request!: ProxiedRequest
  #ours = ''
  #head: ResponseHead | undefined
  #llmResponse: LlmResponse | undefined
  #isHeadSent = false
  #held: Buffer | string | undefined
  /** The buffer that begins with the joined bytes that wait, and has room for more. */
  #room: Buffer | undefined
  /** The client takes no more for now. */
  isBlocked = false

  /** To be called for each request. */
  open(downstream: Downstream, request: ProxiedRequest): void {
    this.#downstream = downstream
    this.#request = request
    this.#ours = ''
    this.#head = undefined
    this.#llmResponse = undefined
    this.#isHeadSent = false
    this.#held = undefined
    this.#room = undefined
    this.isBlocked = false
  }

  /** To be called when the backend's head has arrived. `ours` are our own header fields, as lines. */
  begin(head: ResponseHead, llmResponse: LlmResponse | undefined, ours: string): void {
    this.#head = head
    this.#llmResponse = llmResponse
    this.#ours = ours
  }

  /** The client's response has a Content-Length, whether its head has been sent yet or not. */
  get hasKnownLength(): boolean {
    return this.#head?.contentLength !== undefined && this.#llmResponse?.isFiltered !== true
  }

  /**
   * Returns whether the client gets the backend's chunks with their framing, as received. To be called when the first chunks have arrived, because
   * it sends the head.
   */
  relaysChunks(): boolean {
    if (this.#llmResponse !== undefined) return false
    this.sendHead()
    return this.#downstream.relayChunks()
  }

  /**
   * Adds bytes, which must stay valid until `flush`, `keep` or `end`; a string is a latin1 string. Returns false if the client takes no more as of
   * this call.
   */
  add(bytes: Buffer | string): boolean {
    const held = this.#held
    if (held !== undefined && held.length + bytes.length <= MAX_JOINED_BYTES) {
      this.#held = this.#join(held, bytes)
      return true
    }
    this.#held = bytes
    this.#room = undefined
    return held === undefined || this.#write(held)
  }

  /** Makes what waits outlast the current read. */
  keep(): void {
    const held = this.#held
    if (typeof held === 'object' && this.#room === undefined) this.#held = Buffer.from(held)
  }

  /** Sends what waits. Returns false if the client takes no more as of this call. */
  flush(): boolean {
    const held = this.#held
    this.#held = undefined
    this.#room = undefined
    if (held !== undefined) return this.#write(held)
    return this.#head === undefined || this.#isHeadSent || this.#write('')
  }

  /** To be called when the head has been sent. */
  end(trailers: readonly string[]): void {
    const kept = trailers.length === 0 ? trailers : trailerFields(trailers, this.#head!, this.#ours)
    this.#downstream.end(this.#held, kept)
    this.#held = undefined
    this.#room = undefined
  }

  sendHead(): void {
    if (this.#isHeadSent) return
    this.#isHeadSent = true
    const head = this.#head!
    const isFiltered = this.#llmResponse?.isFiltered ?? false
    const { method, version } = this.#request
    const fields = responseFields(head, {
      ours: this.#ours,
      isInterim: false,
      // RFC 9110 8.6: a 204 response has no length
      keepsLength: head.status !== 204 && !isFiltered,
      keepsTrailers: head.isChunked && hasBody(method, head.status) && version === '1.1',
      isDecoded: this.#llmResponse?.isDecoded ?? false,
    })
    this.#downstream.head(head.status, head.reason, fields)
  }

  /** A read may bring thousands of pieces, so what waits is not copied again for each of them. */
  #join(held: Buffer | string, bytes: Buffer | string): Buffer | string {
    if (typeof held === 'string' || typeof bytes === 'string') return byteText(held) + byteText(bytes)
    const length = held.length + bytes.length
    let room = this.#room
    if (room === undefined || room.length < length) {
      room = Buffer.allocUnsafe(Math.min(2 * length, MAX_JOINED_BYTES))
      held.copy(room)
      this.#room = room
    }
    bytes.copy(room, held.length)
    return room.subarray(0, length)
  }

  #write(bytes: Buffer | string): boolean {
    this.sendHead()
    if (this.#downstream.write(bytes) || this.isBlocked) return true
    this.isBlocked = true
    return false
  }
}

/** Pieces that arrived together are sent together up to this size: as much as a client's wire sends in one write. */
const MAX_JOINED_BYTES = 16 * 1024

/** Fields that frame or describe a message must not come after its body (RFC 9110 6.5.1). */
const NO_TRAILERS = new Set(['content-length', 'host', 'trailer', 'content-encoding', 'content-type', 'content-range', 'set-cookie'])

export interface ResponseFieldOptions {
  /** The decision's header fields, as lines. */
  readonly ours: string
  /** The response is an interim one, and our fields come with the final one. */
  readonly isInterim: boolean
  /** The body is as long as the backend's Content-Length says. */
  readonly keepsLength: boolean
  readonly keepsTrailers: boolean
  /** The body was compressed and has been decoded. */
  readonly isDecoded: boolean
}

/** Options for a head without a body: an interim response, or the switch to another protocol. */
export const WITHOUT_BODY: ResponseFieldOptions = { ours: '', isInterim: false, keepsLength: false, keepsTrailers: false, isDecoded: false }

/** The fields of a head that are passed on to the client. */
interface KeptFields {
  readonly head: ResponseHead
  readonly options: ResponseFieldOptions
  /** The head has rate limit fields, and our own fields decide whether they are passed on. */
  readonly hasLimits: boolean
  /** The lines before our own, and those after them. */
  readonly text: string
  readonly lastLines: string
  readonly hasDate: boolean
  readonly hasLength: boolean
}

/** The result for the last head: the next one is often the same. */
let recent: KeptFields | undefined

/** Returns the backend's fields that are passed on to the client, and our own. */
export function responseFields(head: ResponseHead, options: ResponseFieldOptions): FieldLines {
  if (recent?.head !== head || recent.hasLimits || !areAlike(recent.options, options)) recent = keptFields(head, options)
  const { text, lastLines, hasDate, hasLength } = recent
  return { text: `${text}${options.isInterim ? '' : options.ours}${lastLines}`, hasDate, hasLength }
}

function areAlike(a: ResponseFieldOptions, b: ResponseFieldOptions): boolean {
  return a.keepsLength === b.keepsLength && a.keepsTrailers === b.keepsTrailers && a.isDecoded === b.isDecoded
}

/** Adjacent lines are copied together if the text of all lines is available. */
function keptFields(head: ResponseHead, options: ResponseFieldOptions): KeptFields {
  const { fields, names, lines, version } = head
  const named = connectionNames(head.connection)
  let kept = ''
  let lastLines = ''
  let hasDate = false
  let hasLength = false
  let hasLimits = false
  /** Where the current line begins, and the first line that has not been copied yet. */
  let at = 0
  let from = 0
  for (let i = 0; i < fields.length; i += 2) {
    const name = names[i / 2]!
    const end = at + fields[i]!.length + fields[i + 1]!.length + SEPARATORS_LENGTH
    if (!name.isPlainInResponse && isLimit(name.lower)) hasLimits = true
    let goesOn = (name.isPlainInResponse || passes(name, options)) && named?.has(name.lower) !== true
    if (goesOn && name.lower === 'date') hasDate = true
    else if (goesOn && name.lower === 'content-length') {
      // Content-Length may come twice, but is passed on once.
      goesOn = !hasLength && !head.hasDisposition
      // If a length comes first, Node decodes the bytes of Content-Disposition as UTF-8, so the length is put last.
      if (!hasLength && head.hasDisposition) lastLines = `Content-Length: ${fields[i + 1]}\r\n`
      hasLength = true
    }
    if (!goesOn || lines === undefined) {
      if (lines !== undefined && from < at) kept += lines.slice(from, at)
      if (goesOn) kept += `${fields[i]}: ${fields[i + 1]}\r\n`
      from = end
    }
    at = end
  }
  if (lines !== undefined && from < at) kept += lines.slice(from, at)
  return { head, options, hasLimits, text: `${kept}Via: ${version} edge\r\n`, lastLines, hasDate, hasLength }
}

/** Whether a field that is not plain is passed on. */
function passes({ lower, isHopByHop }: FieldName, { ours, keepsLength, keepsTrailers, isDecoded }: ResponseFieldOptions): boolean {
  if (isHopByHop || givesWay(lower, ours)) return false
  if (lower === 'content-length') return keepsLength
  if (lower === 'content-encoding') return !isDecoded
  return lower !== 'trailer' || keepsTrailers
}

/** X-Edge-* is reserved for us, because clients would take a backend's fields for ours. If we send a rate limit, the backend's is dropped. */
function givesWay(name: string, ours: string): boolean {
  return name.startsWith('x-edge-') || (isLimit(name) && ours.includes('\r\nRateLimit: '))
}

function isLimit(name: string): boolean {
  return name.startsWith('ratelimit')
}

/** Returns the backend's trailers that are passed on to the client: none that would have been dropped from its head. */
function trailerFields(trailers: readonly string[], { connection }: ResponseHead, ours: string): HeaderList {
  const named = connectionNames(connection)
  const kept: HeaderList = []
  for (let i = 0; i < trailers.length; i += 2) {
    const { lower, isHopByHop } = fieldName(trailers[i]!)
    if (isHopByHop || NO_TRAILERS.has(lower) || named?.has(lower) === true || givesWay(lower, ours)) continue
    kept.push(trailers[i]!, trailers[i + 1]!)
  }
  return kept
}
