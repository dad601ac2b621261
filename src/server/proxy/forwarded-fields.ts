import { withoutDebugCookie } from '../debug-sessions.ts'
import type { HeaderList } from '../respond.ts'
import type { Peer } from './peer.ts'
import type { ProxiedRequest } from './proxied-request.ts'

/** RFC 9110 7.6.1: these concern one connection and end with it. */
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

/** Written anew, or meant for us alone. */
const REQUEST_OWN = new Set([
  'host',
  'content-length',
  'expect',
  'trailer',
  'http2-settings',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
])

/** Frames of a message and its hops have no place behind its body (RFC 9110 6.5.1). */
const NO_TRAILERS = new Set(['content-length', 'host', 'trailer', 'content-encoding', 'content-type', 'content-range', 'set-cookie'])

const VIA = '1.1 edge'

/** Fields by which a peer speaks for others: only a trusted one is heard. */
export function isPeersWord(name: string): boolean {
  return name.startsWith('x-forwarded-') || name === 'forwarded' || name === 'x-asn-type' || name === 'x-tor-exit'
}

export interface RequestHeadOptions {
  readonly host: string
  readonly target: string
  /** The length of a body that we hold; undefined: the body is framed as it came. */
  readonly bodyLength: number | undefined
  /** The answer is to be read, so it had better not be compressed. */
  readonly asksForIdentity: boolean
}

/** The head of the backend's request: order, spelling and bytes of the client's fields are kept. */
export function requestHead(request: ProxiedRequest, peer: Peer, options: RequestHeadOptions): string {
  const { fields, names, method } = request
  const named = connectionNames(fields, names)
  let head = `${method} ${options.target} HTTP/1.1\r\nHost: ${options.host}\r\n`
  let forwardedHost: string | undefined
  let forwardedProto: string | undefined
  let forwardedFor = ''
  for (let i = 0; i < names.length; i++) {
    const name = names[i]!
    const value = fields[2 * i + 1]!
    if (peer.isTrusted) {
      if (name === 'x-forwarded-for') forwardedFor += `${value}, `
      else if (name === 'x-forwarded-host') forwardedHost ??= value
      else if (name === 'x-forwarded-proto') forwardedProto ??= value
    } else if (isPeersWord(name)) continue
    if (HOP_BY_HOP.has(name) || REQUEST_OWN.has(name) || named?.has(name) === true) continue
    if (name === 'accept-encoding' && options.asksForIdentity) continue
    const kept = name === 'cookie' ? withoutDebugCookie(value) : value
    if (kept !== undefined) head += `${fields[2 * i]}: ${kept}\r\n`
  }
  if (options.asksForIdentity) head += 'Accept-Encoding: identity\r\n'
  if (request.isUpgrade) head += 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
  // RFC 9110 10.1.4: trailers are passed on, so they may be asked for
  else if (/(?:^|,)\s*trailers\s*(?:,|$)/i.test(request.header('te') ?? '')) head += 'Connection: TE\r\nTE: trailers\r\n'
  head += `X-Forwarded-For: ${forwardedFor}${peer.address}\r\n`
  if (forwardedHost !== undefined || request.host !== '') head += `X-Forwarded-Host: ${forwardedHost ?? request.host}\r\n`
  head += `X-Forwarded-Proto: ${forwardedProto ?? 'http'}\r\nVia: ${VIA}\r\n`
  return `${head}${bodyFraming(request, options.bodyLength)}\r\n`
}

/** What of the backend's fields goes on to the client. Ours are in `ours`, and theirs of the same name give way. */
export function responseFields(fields: readonly string[], options: ResponseFieldOptions): HeaderList {
  const names = lowerNames(fields)
  const named = connectionNames(fields, names)
  const ownNames = options.ours.length === 0 ? undefined : new Set(lowerNames(options.ours))
  const kept: HeaderList = []
  let hasLength = false
  for (let i = 0; i < names.length; i++) {
    const name = names[i]!
    if (HOP_BY_HOP.has(name) || named?.has(name) === true) continue
    if (ownNames !== undefined && (ownNames.has(name) || (name.startsWith('ratelimit') && ownNames.has('ratelimit')))) continue
    if (name === 'content-length' && (hasLength || !options.keepsLength)) continue
    if (name === 'content-encoding' && options.isDecoded) continue
    if (name === 'trailer' && !options.keepsTrailers) continue
    if (name === 'content-length') hasLength = true
    kept.push(fields[2 * i]!, fields[2 * i + 1]!)
  }
  kept.push('Via', VIA, ...options.ours)
  return kept
}

export interface ResponseFieldOptions {
  /** Names and values of our own fields in turn. */
  readonly ours: HeaderList
  /** The body is as long as the backend says. */
  readonly keepsLength: boolean
  readonly keepsTrailers: boolean
  /** The body was compressed and is not any more. */
  readonly isDecoded: boolean
}

/** As pairs. */
export function trailerFields(trailers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i < trailers.length; i += 2) {
    const name = trailers[i]!.toLowerCase()
    if (!HOP_BY_HOP.has(name) && !NO_TRAILERS.has(name)) pairs.push([trailers[i]!, trailers[i + 1]!])
  }
  return pairs
}

function lowerNames(fields: readonly string[]): string[] {
  const names: string[] = []
  for (let i = 0; i < fields.length; i += 2) names.push(fields[i]!.toLowerCase())
  return names
}

/** The fields that Connection names. */
function connectionNames(fields: readonly string[], names: readonly string[]): Set<string> | undefined {
  let named: Set<string> | undefined
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== 'connection') continue
    const value = fields[2 * i + 1]!
    if (value === 'keep-alive' || value === 'close') continue
    named ??= new Set()
    for (const name of value.split(',')) named.add(name.trim().toLowerCase())
  }
  return named
}

function bodyFraming({ isChunked, contentLength }: ProxiedRequest, bodyLength: number | undefined): string {
  if (bodyLength !== undefined) return isChunked || contentLength !== undefined ? `Content-Length: ${bodyLength}\r\n` : ''
  if (isChunked) return 'Transfer-Encoding: chunked\r\n'
  return contentLength === undefined ? '' : `Content-Length: ${contentLength}\r\n`
}
