import type { ResponseHead } from '../backend/response-head.ts'
import type { HeaderList } from '../respond.ts'
import { hopByHop, isHopByHop, lowerNames } from './hop-by-hop.ts'

/** What frames or describes a message has no place behind its body (RFC 9110 6.5.1). */
const NO_TRAILERS = new Set(['content-length', 'host', 'trailer', 'content-encoding', 'content-type', 'content-range', 'set-cookie'])

export interface ResponseFieldOptions {
  /** Names and values of our own fields in turn; the backend's of the same name give way. */
  readonly ours: HeaderList
  /** The body is as long as the backend says. */
  readonly keepsLength: boolean
  readonly keepsTrailers: boolean
  /** The body was compressed and is not any more. */
  readonly isDecoded: boolean
}

/** The fields of a head that has no body behind it: an interim answer, or the end of HTTP. */
export const WITHOUT_BODY: ResponseFieldOptions = { ours: [], keepsLength: false, keepsTrailers: false, isDecoded: false }

/** What of the backend's fields goes on to the client. */
export function responseFields({ fields, version }: ResponseHead, options: ResponseFieldOptions): HeaderList {
  const names = lowerNames(fields)
  const endsHere = hopByHop(fields, names)
  const ownNames = options.ours.length === 0 ? undefined : new Set(lowerNames(options.ours))
  const givesWay = (name: string): boolean =>
    ownNames !== undefined && (ownNames.has(name) || (name.startsWith('ratelimit') && ownNames.has('ratelimit')))
  const kept: HeaderList = []
  let hasLength = false
  let lastLength: string | undefined
  for (let i = 0; i < names.length; i++) {
    const name = names[i]!
    if (endsHere(name) || givesWay(name)) continue
    if (name === 'content-length') {
      // It may come twice, and goes on once.
      if (hasLength || !options.keepsLength) continue
      hasLength = true
      // Behind a length, Node takes the bytes of Content-Disposition for UTF-8: then the length comes last.
      if (names.includes('content-disposition')) {
        lastLength = fields[2 * i + 1]!
        continue
      }
    }
    if (name === 'content-encoding' && options.isDecoded) continue
    if (name === 'trailer' && !options.keepsTrailers) continue
    kept.push(fields[2 * i]!, fields[2 * i + 1]!)
  }
  kept.push('Via', `${version} edge`, ...options.ours)
  if (lastLength !== undefined) kept.push('Content-Length', lastLength)
  return kept
}

/** As pairs. */
export function trailerFields(trailers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i < trailers.length; i += 2) {
    const name = trailers[i]!.toLowerCase()
    if (!isHopByHop(name) && !NO_TRAILERS.has(name)) pairs.push([trailers[i]!, trailers[i + 1]!])
  }
  return pairs
}

/** A head as the wire carries it, its blank line left out. */
export function headText({ status, reason }: ResponseHead, fields: HeaderList): string {
  let text = `HTTP/1.1 ${status} ${reason}\r\n`
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  return text
}
