import { flatText } from '../memory/buffers.ts'
import { TOKEN } from '../text/formats.ts'

/** What is known of a field by its name alone. */
export interface FieldName {
  readonly lower: string
  /** RFC 9110 5.6.2: it is a token. */
  readonly isValid: boolean
  /** RFC 9110 7.6.1: it concerns one connection and ends with it. */
  readonly isHopByHop: boolean
  /** The lower-case name as CGI reads it. */
  readonly folded: string
  /** By it a peer speaks for others. */
  readonly isForwarding: boolean
  /** In a request, it is written anew, or meant for us alone. */
  readonly isOwn: boolean
  /** In a request, it goes on to the backend unless Connection names it, whoever sends it and whatever its value is. */
  readonly isPlainInRequest: boolean
  /** The same of a response, on to the client. It says nothing of the body or the connection either. */
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

/** Whether they go on, or what else does, depends on more than their names. */
const CONDITIONAL_IN_REQUEST = new Set(['accept-encoding', 'traceparent', 'tracestate', 'cookie'])
const CONDITIONAL_IN_RESPONSE = new Set(['content-length', 'content-encoding', 'content-disposition', 'trailer', 'date'])

/** A few clients and one backend send the same spellings again and again, so names are cached. Longer ones are not. */
const MAX_LENGTH = 64
/** Of each of two generations: however many names a client makes up, the usual ones are cached again as soon as they come. */
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
  // A part of a text would keep the whole head that it came in.
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

/** A backend's field that our own may replace. */
function mayGiveWay(lower: string): boolean {
  return lower.startsWith('x-edge-') || lower.startsWith('ratelimit')
}

/**
 * A field's name, given in lower case, as CGI and what descends from it read it (RFC 3875 4.1.18; WSGI, Rack, PHP): they turn whatever
 * is no letter or digit into `_`, so `x_api_key` and `x.api-key` are the same field to them.
 */
export function foldedName(name: string): string {
  return name.replace(/[^a-z0-9-]/g, '-')
}

const NAMES = new Set(['forwarded', 'x-forwarded', 'x-real-ip', 'x-asn-type', 'x-tor-exit'])

/** Fields by which a peer speaks for others, in any spelling: only a trusted one is heard. `name` is in lower case. */
export function isForwardingField(name: string): boolean {
  if (name.charCodeAt(0) !== X && name.charCodeAt(0) !== F) return false
  const folded = foldedName(name)
  return folded.startsWith('x-forwarded-') || NAMES.has(folded)
}

const X = 0x78
const F = 0x66
