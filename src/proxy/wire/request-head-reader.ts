import { endOfTarget } from '../../http1/characters.ts'
import { FIELD_INTS, HeadReader, MAX_HEAD_BYTES, unendedHead } from '../../http1/head-reader.ts'
import { endOfMethod, endOfVersion, INCOMPLETE, OTHER } from '../../http1/request-line.ts'
import { pathOf } from '../../listen/node-http/routes.ts'
import type { ReceivedHead } from '../downstream.ts'
import { ProxiedRequest } from '../proxied-request.ts'

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
    const methodEnd = endOfMethod(bytes, from, limit)
    if (methodEnd < 0) return methodEnd === INCOMPLETE ? unendedHead(from, end) : OTHER
    const targetAt = methodEnd + 1
    const targetEnd = endOfTarget(bytes, targetAt, limit)
    if (targetEnd > targetAt && bytes[targetAt] !== SLASH && (bytes[targetAt] !== ASTERISK || targetEnd > targetAt + 1)) return OTHER
    const lineEnd = endOfVersion(bytes, targetEnd, limit)
    const headEnd = lineEnd < 0 ? lineEnd : this.#fields.read(bytes, lineEnd, limit)
    if (headEnd === INCOMPLETE) return unendedHead(from, end)
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
