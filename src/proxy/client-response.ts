import { byteText } from '../byte-text.ts'
import { hasBody, type ResponseHead } from './backend/response-head.ts'
import type { Downstream } from './downstream.ts'
import type { LlmResponse } from './llm-response.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import { responseFields, trailerFields } from './response-fields.ts'

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
