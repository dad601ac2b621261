import { flatText } from '../memory/latin1-text.ts'
import { foldedName, TOKEN } from '../text/formats.ts'

/** Facts about a field that follow from its name alone. */
export interface FieldName {
  readonly lower: string
  /** Whether the name is a token (RFC 9110 5.6.2). */
  readonly isValid: boolean
  /** Whether it applies to one connection only (RFC 9110 7.6.1). */
  readonly isHopByHop: boolean
  /** The lower-case name as CGI reads it. */
  readonly folded: string
  /** Whether a peer uses it to speak for others. */
  readonly isForwarding: boolean
  /** Whether a request field is written anew by us, or meant only for us. */
  readonly isOwn: boolean
  /** Whether a request field goes on to the backend regardless of its sender and value, unless Connection names it. */
  readonly isPlainInRequest: boolean
  /** Whether a response field goes on to the client regardless of its value, unless Connection names it, and says nothing about the body or connection. */
  readonly isPlainInResponse: boolean
}

const HOP_BY_HOP = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'te',
  'transfer-encoding',
  'upgrade',
  'proxy-authenticate',
  'proxy-authorization',
])

const OWN = new Set([
  'host',
  'content-length',
  'expect',
  'trailer',
  'http2-settings',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-edge-debug-secret',
])

/** Fields for which more than the name decides whether they, or what else, is sent on. */
const CONDITIONAL_IN_REQUEST = new Set(['accept-encoding', 'traceparent', 'tracestate', 'cookie'])
const CONDITIONAL_IN_RESPONSE = new Set(['content-length', 'content-encoding', 'content-disposition', 'trailer', 'date'])

/** Longest name that is cached. Names are cached because a few clients and one backend send the same spellings again and again. */
const MAX_LENGTH = 64
/** Size of each of two cache generations. However many names a client makes up, the usual ones are cached again when they next come. */
const MAX_KNOWN = 512
let recent = new Map<string, FieldName>()
let earlier = new Map<string, FieldName>()

export function fieldName(text: string): FieldName {
  return recent.get(text) ?? lookAt(text)
}

function lookAt(text: string): FieldName {
  const name = earlier.get(text) ?? describe(text)
  if (!name.isValid || text.length > MAX_LENGTH) return name
  if (recent.size === MAX_KNOWN) {
    earlier = recent
    recent = new Map()
  }
  // A slice would keep the whole head that it came from alive.
  recent.set(flatText(text), name)
  return name
}

function describe(text: string): FieldName {
  const isValid = TOKEN.test(text)
  const lower = (isValid && text.length <= MAX_LENGTH ? flatText(text) : text).toLowerCase()
  const isHopByHop = HOP_BY_HOP.has(lower)
  const isForwarding = isForwardingField(lower)
  const isOwn = OWN.has(lower)
  const isPlainInRequest = !isHopByHop && !isForwarding && !isOwn && !CONDITIONAL_IN_REQUEST.has(lower)
  const isPlainInResponse = !isHopByHop && !mayGiveWay(lower) && !CONDITIONAL_IN_RESPONSE.has(lower)
  return { lower, isValid, isHopByHop, folded: foldedName(lower), isForwarding, isOwn, isPlainInRequest, isPlainInResponse }
}

/** Whether a field of the backend may be replaced by one of ours. */
function mayGiveWay(lower: string): boolean {
  return lower.startsWith('x-edge-') || lower.startsWith('ratelimit')
}

const NAMES = new Set(['forwarded', 'x-forwarded', 'x-real-ip', 'x-asn-type', 'x-tor-exit'])

/** Whether a peer uses this field, in any spelling, to speak for others, which only trusted peers may do. `name` is in lower case. */
export function isForwardingField(name: string): boolean {
  if (name.charCodeAt(0) !== X && name.charCodeAt(0) !== F) return false
  const folded = foldedName(name)
  return folded.startsWith('x-forwarded-') || NAMES.has(folded)
}

const X = 0x78
const F = 0x66
