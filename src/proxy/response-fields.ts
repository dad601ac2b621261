import { connectionNames } from '../http/connection-names.ts'
import type { HeaderList } from '../http/header-list.ts'
import type { ResponseHead } from './backend/response-head.ts'
import { fieldName } from './field-name.ts'

/** What frames or describes a message has no place behind its body (RFC 9110 6.5.1). */
const NO_TRAILERS = new Set(['content-length', 'host', 'trailer', 'content-encoding', 'content-type', 'content-range', 'set-cookie'])

export interface ResponseFieldOptions {
  /** Names and values of the decision's fields in turn. */
  readonly ours: HeaderList
  /** An interim response: our fields come with the final one. */
  readonly isInterim: boolean
  /** The body is as long as the backend says. */
  readonly keepsLength: boolean
  readonly keepsTrailers: boolean
  /** The body was compressed and is not any more. */
  readonly isDecoded: boolean
}

/** The fields of a head that has no body behind it: an interim response, or the end of HTTP. */
export const WITHOUT_BODY: ResponseFieldOptions = { ours: [], isInterim: false, keepsLength: false, keepsTrailers: false, isDecoded: false }

/** What of the backend's fields goes on to the client. */
export function responseFields({ fields, version, connection }: ResponseHead, options: ResponseFieldOptions): HeaderList {
  const { ours } = options
  const named = connectionNames(connection)
  const kept: HeaderList = []
  let hasLength = false
  let lastLength: string | undefined
  for (let i = 0; i < fields.length; i += 2) {
    const { lower: name, isHopByHop } = fieldName(fields[i]!)
    if (isHopByHop || named?.has(name) === true || givesWay(name, ours)) continue
    if (name === 'content-length') {
      // It may come twice, and goes on once.
      if (hasLength || !options.keepsLength) continue
      hasLength = true
      // Behind a length, Node takes the bytes of Content-Disposition for UTF-8: then the length comes last.
      if (hasDisposition(fields)) {
        lastLength = fields[i + 1]!
        continue
      }
    }
    if (name === 'content-encoding' && options.isDecoded) continue
    if (name === 'trailer' && !options.keepsTrailers) continue
    kept.push(fields[i]!, fields[i + 1]!)
  }
  kept.push('Via', `${version} edge`)
  if (!options.isInterim) kept.push(...ours)
  if (lastLength !== undefined) kept.push('Content-Length', lastLength)
  return kept
}

/** X-Edge-* is ours alone: a backend's would be taken for our word. Where we tell a rate limit, nobody else does. */
function givesWay(name: string, ours: HeaderList): boolean {
  if (name.startsWith('x-edge-')) return true
  if (!name.startsWith('ratelimit')) return false
  for (let i = 0; i < ours.length; i += 2) if (ours[i] === 'RateLimit') return true
  return false
}

function hasDisposition(fields: readonly string[]): boolean {
  for (let i = 0; i < fields.length; i += 2) if (fieldName(fields[i]!).lower === 'content-disposition') return true
  return false
}

/** What of the backend's trailers goes on to the client: nothing that would not have passed in its head. */
export function trailerFields(trailers: readonly string[], { connection }: ResponseHead, ours: HeaderList): HeaderList {
  const named = connectionNames(connection)
  const kept: HeaderList = []
  for (let i = 0; i < trailers.length; i += 2) {
    const { lower, isHopByHop } = fieldName(trailers[i]!)
    if (isHopByHop || NO_TRAILERS.has(lower) || named?.has(lower) === true || givesWay(lower, ours)) continue
    kept.push(trailers[i]!, trailers[i + 1]!)
  }
  return kept
}

/** A head as the wire carries it. */
export function headText(status: number, reason: string, fields: HeaderList): string {
  let text = `HTTP/1.1 ${status} ${reason}\r\n`
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  return `${text}\r\n`
}
