import { connectionNames } from '../http/connection-names.ts'
import { type FieldName, fieldName } from '../http/field-name.ts'
import type { HeaderList } from '../http/header-list.ts'
import type { ResponseHead } from './backend/response-head.ts'
import { type FieldLines, SEPARATORS_LENGTH } from './field-lines.ts'

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
export function trailerFields(trailers: readonly string[], { connection }: ResponseHead, ours: string): HeaderList {
  const named = connectionNames(connection)
  const kept: HeaderList = []
  for (let i = 0; i < trailers.length; i += 2) {
    const { lower, isHopByHop } = fieldName(trailers[i]!)
    if (isHopByHop || NO_TRAILERS.has(lower) || named?.has(lower) === true || givesWay(lower, ours)) continue
    kept.push(trailers[i]!, trailers[i + 1]!)
  }
  return kept
}
