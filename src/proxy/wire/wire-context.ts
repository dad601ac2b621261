import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { endOfTarget } from '../../http1/characters.ts'
import { FIELD_INTS, HeadReader, MAX_HEAD_BYTES } from '../../http1/head-reader.ts'
import { endOfMethod, endOfVersion, INCOMPLETE, OTHER } from '../../http1/request-line.ts'
import { pathOf } from '../../listen/node-http/routes.ts'
import { FrontState } from '../../listen/wire-front.ts'
import type { Downstream, FieldLines, Peer, ReceivedHead } from '../downstream.ts'
import { ProxiedRequest } from '../proxied-request.ts'

export interface WireHandlers {
  readonly peerOf: (socket: Socket) => Peer
  /** Whether `node:http` serves this path. */
  readonly isOwn: (path: string) => boolean
  readonly handle: (request: ProxiedRequest, downstream: Downstream) => void
  /** Called when bytes that are not a request are refused, or when a connection is cut for too many pipelined requests. */
  readonly noteMalformed: (detail: string) => void
  /** Gives a connection to `node:http` permanently. */
  readonly handOver: (socket: Socket) => void
}

/** State that all connections of a wire share. */
export class WireContext extends FrontState {
  readonly handlers: WireHandlers
  /** How long a client may take nothing of what waits for it; 0 means no limit. */
  readonly stallMs: number
  readonly finalHead: FinalHead
  readonly reader = new RequestHeadReader()
  /** Total of the pipelined bytes that wait on paused connections. */
  heldBytes = 0

  constructor(keepAliveMs: number, stallMs: number, handlers: WireHandlers) {
    super(handlers.handOver)
    this.handlers = handlers
    this.stallMs = stallMs
    this.finalHead = new FinalHead(keepAliveMs)
  }
}

const ASTERISK = 0x2a
const SLASH = 0x2f
const LINE_END_LENGTH = 2

/** Reads the heads of plain requests whose target is in origin form, or `*`. Anything else is OTHER; nothing is repaired. */
export class RequestHeadReader {
  readonly #fields = new HeadReader()
  /** The head that was read last: all its bytes as a latin1 string, and what they say. */
  text = ''
  received: ReceivedHead = { method: '', target: '', version: '1.1', fields: [], lines: '' }

  /** Reads the head that begins at `from`. Returns where it ends, INCOMPLETE or OTHER. */
  read(bytes: Buffer, from: number, end: number): number {
    const limit = Math.min(end, from + MAX_HEAD_BYTES)
    const cut = end - from < MAX_HEAD_BYTES ? INCOMPLETE : OTHER
    const methodEnd = endOfMethod(bytes, from, limit)
    if (methodEnd < 0) return methodEnd === INCOMPLETE ? cut : OTHER
    const targetAt = methodEnd + 1
    const targetEnd = endOfTarget(bytes, targetAt, limit)
    if (targetEnd > targetAt && bytes[targetAt] !== SLASH && (bytes[targetAt] !== ASTERISK || targetEnd > targetAt + 1)) return OTHER
    const lineEnd = endOfVersion(bytes, targetEnd, limit)
    const headEnd = lineEnd < 0 ? lineEnd : this.#fields.read(bytes, lineEnd, limit)
    if (headEnd === INCOMPLETE) return cut
    if (headEnd === OTHER || targetEnd === targetAt) return OTHER
    const text = bytes.toString('latin1', from, headEnd)
    const method = text.slice(0, methodEnd - from)
    const target = text.slice(targetAt - from, targetEnd - from)
    const fields = this.#fieldsOf(text, from)
    const lines = this.#fields.isSpaced ? text.slice(lineEnd - from, headEnd - from - LINE_END_LENGTH) : undefined
    this.text = text
    this.received = { method, target, version: '1.1', fields, lines }
    return headEnd
  }

  #fieldsOf(text: string, from: number): string[] {
    const { offsets, used } = this.#fields
    const fields: string[] = []
    for (let i = 0; i < used; i += FIELD_INTS) {
      fields.push(text.slice(offsets[i]! - from, offsets[i + 1]! - from), text.slice(offsets[i + 2]! - from, offsets[i + 3]! - from))
    }
    return fields
  }
}

/** Writes the heads of final responses, byte for byte as `node:http` does. */
export class FinalHead {
  readonly #keepAlive: string
  /** The Date line, until its second is over. */
  #date: string | undefined
  /** Whether the head that was written last announces a chunked body. */
  isChunked = false

  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n`
  }

  text(status: number, reason: string | undefined, fields: FieldLines, hasBody: boolean, isLast: boolean): string {
    const date = fields.hasDate ? '' : (this.#date ?? this.#newDate())
    const connection = isLast ? 'Connection: close\r\n' : this.#keepAlive
    this.isChunked = hasBody && !fields.hasLength
    const framing = this.isChunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n'
    return `HTTP/1.1 ${status} ${reason ?? statusReason(status)}\r\n${fields.text}${date}${connection}${framing}`
  }

  #newDate(): string {
    const now = new Date()
    const date = `Date: ${now.toUTCString()}\r\n`
    this.#date = date
    // One timer a second costs less than reading the clock for each response.
    setTimeout(() => {
      this.#date = undefined
    }, 1000 - now.getMilliseconds()).unref()
    return date
  }
}

/** Returns the usual reason phrase of a status. */
function statusReason(status: number): string {
  return STATUS_CODES[status] ?? 'unknown'
}

/** A request as read from its head. Clients often send the same head again; then one object serves all these requests. */
export interface PlainProxyRequest {
  readonly received: ReceivedHead
  readonly request: ProxiedRequest
  readonly path: string
}

/** Returns undefined if something is wrong with the head. */
export function plainRequest(received: ReceivedHead): PlainProxyRequest | undefined {
  const request = ProxiedRequest.read(received, false)
  return typeof request === 'string' ? undefined : { received, request, path: pathOf(request.target) }
}
