import { type FieldName, fieldName } from '../http1/field-name.ts'
import { connectionNames, type HeaderList } from '../http1/header-fields.ts'
import { byteText } from '../memory/buffers.ts'
import { hasBody, type ResponseHead } from './backend/response-head.ts'
import { type Downstream, type FieldLines, SEPARATORS_LENGTH } from './downstream.ts'
import type { LlmResponse } from './llm/llm-response.ts'
import type { ProxiedRequest } from './proxied-request.ts'

/**
 * The backend's response on its way to the client. Its head waits for the first bytes behind it, or for a pause: until then a failure can
 * still be reported in its place. Bytes wait for those behind them: a response that came in one piece leaves in one.
 */
export class ClientResponse {
  #downstream!: Downstream
  #request!: ProxiedRequest
  /** The lines of the decision's fields. */
  #ours = ''
  #head: ResponseHead | undefined
  #llmResponse: LlmResponse | undefined
  #isHeadSent = false
  #held: Buffer | string | undefined
  /** What waits was joined at the start of it, and there is room for more. */
  #room: Buffer | undefined
  /** The client takes no more for now. */
  isBlocked = false

  /** To be called for each request. */
  open(downstream: Downstream, request: ProxiedRequest, ours: string): void {
    this.#downstream = downstream
    this.#request = request
    this.#ours = ours
    this.#head = undefined
    this.#llmResponse = undefined
    this.#isHeadSent = false
    this.#held = undefined
    this.#room = undefined
    this.isBlocked = false
  }

  /** The backend's head has come. */
  begin(head: ResponseHead, llmResponse: LlmResponse | undefined): void {
    this.#head = head
    this.#llmResponse = llmResponse
  }

  /** The client was told how many bytes will come, or will be. */
  get hasKnownLength(): boolean {
    return this.#head?.contentLength !== undefined && this.#llmResponse?.isFiltered !== true
  }

  /** Whether the client gets the backend's chunks with their frames, as they came. To be asked when the first are here: it sends the head. */
  relaysChunks(): boolean {
    if (this.#llmResponse !== undefined) return false
    this.sendHead()
    return this.#downstream.relayChunks()
  }

  /** The bytes are valid until `flush`, `keep` or `end`; a text has one letter a byte. Returns false when with this the client takes no more. */
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

  /** What waits does so beyond this read. */
  keep(): void {
    const held = this.#held
    if (typeof held === 'object' && this.#room === undefined) this.#held = Buffer.from(held)
  }

  /** Sends what waits. Returns false when with this the client takes no more. */
  flush(): boolean {
    const held = this.#held
    this.#held = undefined
    this.#room = undefined
    if (held !== undefined) return this.#write(held)
    return this.#head === undefined || this.#isHeadSent || this.#write('')
  }

  /** To be called when the head was sent. */
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
      // RFC 9110 8.6: 204 has no length
      keepsLength: head.status !== 204 && !isFiltered,
      keepsTrailers: head.isChunked && hasBody(method, head.status) && version === '1.1',
      isDecoded: this.#llmResponse?.isDecoded ?? false,
    })
    this.#downstream.head(head.status, head.reason, fields)
  }

  /** A read may bring thousands of pieces: what waits is not copied again for each. */
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

/** Pieces that came together leave together up to here: as much as a client's wire sends in one write. */
const MAX_JOINED_BYTES = 16 * 1024

/** What frames or describes a message has no place behind its body (RFC 9110 6.5.1). */
const NO_TRAILERS = new Set(['content-length', 'host', 'trailer', 'content-encoding', 'content-type', 'content-range', 'set-cookie'])

export interface ResponseFieldOptions {
  /** The lines of the decision's fields. */
  readonly ours: string
  /** An interim response: our fields come with the final one. */
  readonly isInterim: boolean
  /** The body is as long as the backend says. */
  readonly keepsLength: boolean
  readonly keepsTrailers: boolean
  /** The body was compressed and is not any more. */
  readonly isDecoded: boolean
}

/** The fields of a head that has no body behind it: an interim response, or the end of HTTP. */
export const WITHOUT_BODY: ResponseFieldOptions = { ours: '', isInterim: false, keepsLength: false, keepsTrailers: false, isDecoded: false }

/** What of a head's fields goes on to the client. */
interface KeptFields {
  readonly head: ResponseHead
  readonly options: ResponseFieldOptions
  /** Which go on depends on our own. */
  readonly hasLimits: boolean
  /** The lines before ours, and behind them. */
  readonly text: string
  readonly lastLines: string
  readonly hasDate: boolean
  readonly hasLength: boolean
}

/** Of the last head: often the next is the same. */
let recent: KeptFields | undefined

/** What of the backend's fields goes on to the client, and our own. */
export function responseFields(head: ResponseHead, options: ResponseFieldOptions): FieldLines {
  if (recent?.head !== head || recent.hasLimits || !areAlike(recent.options, options)) recent = keptFields(head, options)
  const { text, lastLines, hasDate, hasLength } = recent
  return { text: `${text}${options.isInterim ? '' : options.ours}${lastLines}`, hasDate, hasLength }
}

function areAlike(a: ResponseFieldOptions, b: ResponseFieldOptions): boolean {
  return a.keepsLength === b.keepsLength && a.keepsTrailers === b.keepsTrailers && a.isDecoded === b.isDecoded
}

/** Neighbours are copied together, where the text of their lines is at hand. */
function keptFields(head: ResponseHead, options: ResponseFieldOptions): KeptFields {
  const { fields, names, lines, version } = head
  const named = connectionNames(head.connection)
  let kept = ''
  let lastLines = ''
  let hasDate = false
  let hasLength = false
  let hasLimits = false
  /** Where the current line begins, and the first of those that are not copied yet. */
  let at = 0
  let from = 0
  for (let i = 0; i < fields.length; i += 2) {
    const name = names[i / 2]!
    const end = at + fields[i]!.length + fields[i + 1]!.length + SEPARATORS_LENGTH
    if (!name.isPlainInResponse && isLimit(name.lower)) hasLimits = true
    let goesOn = (name.isPlainInResponse || passes(name, options)) && named?.has(name.lower) !== true
    if (goesOn && name.lower === 'date') hasDate = true
    else if (goesOn && name.lower === 'content-length') {
      // It may come twice, and goes on once.
      goesOn = !hasLength && !head.hasDisposition
      // Behind a length, Node takes the bytes of Content-Disposition for UTF-8: then the length comes last.
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

/** Whether a field that needs a closer look goes on. */
function passes({ lower, isHopByHop }: FieldName, { ours, keepsLength, keepsTrailers, isDecoded }: ResponseFieldOptions): boolean {
  if (isHopByHop || givesWay(lower, ours)) return false
  if (lower === 'content-length') return keepsLength
  if (lower === 'content-encoding') return !isDecoded
  return lower !== 'trailer' || keepsTrailers
}

/** X-Edge-* is ours alone: a backend's would be taken for our word. Where we tell a rate limit, nobody else does. */
function givesWay(name: string, ours: string): boolean {
  return name.startsWith('x-edge-') || (isLimit(name) && ours.includes('\r\nRateLimit: '))
}

function isLimit(name: string): boolean {
  return name.startsWith('ratelimit')
}

/** What of the backend's trailers goes on to the client: nothing that would not have passed in its head. */
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
