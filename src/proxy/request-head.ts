import type { FieldName } from '../http1/field-name.ts'
import { connectionNames, hasMember } from '../http1/header-fields.ts'
import { withoutSessionCookies } from '../sessions/session-cookies.ts'
import type { OutgoingTrace } from '../telemetry/tracing/request-trace.ts'
import { foldedName } from '../text/formats.ts'
import { type Peer, SEPARATORS_LENGTH } from './downstream.ts'
import type { ProxiedRequest } from './proxied-request.ts'

export interface RequestHeadOptions {
  readonly host: string
  readonly target: string
  /** Length of a body that we hold; if undefined, the body is framed as it arrived. */
  readonly bodyLength: number | undefined
  /** The response will be read, so the backend is asked not to compress it. */
  readonly asksForIdentity: boolean
  /** Replaces the client's own trace fields; if the request is not traced, it is undefined and those are passed on. */
  readonly trace: OutgoingTrace | undefined
  /** The fields that carried a key of ours, in lower case. They are not passed on in any spelling, because the backend could use the key. */
  readonly keyFields?: readonly string[] | undefined
  /** The backend's own fields, names in lower case and values, which replace the client's. */
  readonly ownFields?: readonly (readonly [name: string, value: string])[] | undefined
}

/** Returns the head of the backend's request. Order, spelling and bytes of the client's fields are kept. */
export function requestHead(request: ProxiedRequest, peer: Peer, options: RequestHeadOptions): string {
  const { trace } = options
  let head = `${request.method} ${options.target} HTTP/1.1\r\nHost: ${options.host}\r\n${keptLines(request, peer, options)}`
  if (options.ownFields !== undefined) {
    for (const [name, value] of options.ownFields) if (!isWrittenAnyway(name, options)) head += `${name}: ${value}\r\n`
  }
  if (options.asksForIdentity) head += 'Accept-Encoding: identity\r\n'
  if (trace !== undefined) head += `traceparent: ${trace.traceparent}\r\n`
  if (request.isUpgrade) head += 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
  // RFC 9110 10.1.4: trailers are passed on, so they may be asked for
  else if (request.te !== '' && hasMember(request.te, 'trailers')) head += 'Connection: TE\r\nTE: trailers\r\n'
  return `${head}${forwardingLines(request, peer)}Via: ${request.version} edge\r\n${bodyFraming(request, options.bodyLength)}\r\n`
}

/** Returns the client's lines that are passed on. Adjacent lines are copied together if the text of all lines is available. */
function keptLines(request: ProxiedRequest, peer: Peer, options: RequestHeadOptions): string {
  const { fields, names, lines } = request
  const keyFields = foldedFields(options)
  const named = connectionNames(request.connection)
  let kept = ''
  /** Where the current line begins, and the first line that has not been copied yet. */
  let at = 0
  let from = 0
  for (let i = 0; i < fields.length; i += 2) {
    const name = names[i / 2]!
    const field = fields[i]!
    const value = fields[i + 1]!
    const isNamed = named?.has(name.lower) === true || keyFields?.includes(name.folded) === true
    const goesOn = (name.isPlainInRequest || passes(name, peer, options)) && !isNamed
    const own = goesOn && name.lower === 'cookie' ? withoutSessionCookies(value) : value
    const isChanged = !goesOn || own !== value
    const end = at + field.length + value.length + SEPARATORS_LENGTH
    if (isChanged || lines === undefined) {
      if (lines !== undefined && from < at) kept += lines.slice(from, at)
      if (goesOn && own !== undefined) kept += `${field}: ${own}\r\n`
      from = end
    }
    at = end
  }
  return lines === undefined || from === at ? kept : kept + lines.slice(from, at)
}

/** Returns the fields of the client that are not passed on because of what they are to us or to the backend. */
function foldedFields({ keyFields, ownFields }: RequestHeadOptions): readonly string[] | undefined {
  if (ownFields === undefined) return keyFields?.map(foldedName)
  return [...(keyFields ?? []), ...ownFields.map(([name]) => name)].map(foldedName)
}

/** Whether a field of the backend's is one that we write ourselves for this request. */
function isWrittenAnyway(name: string, { asksForIdentity, trace }: RequestHeadOptions): boolean {
  return (asksForIdentity && name === 'accept-encoding') || (trace !== undefined && name === 'traceparent')
}

/** Whether a field that is not plain is passed on. */
function passes(
  { lower, isHopByHop, isOwn, isForwarding }: FieldName,
  peer: Peer,
  { asksForIdentity, trace }: RequestHeadOptions,
): boolean {
  if (isHopByHop || isOwn || (isForwarding && !peer.isTrusted)) return false
  if (asksForIdentity && lower === 'accept-encoding') return false
  return trace === undefined || (lower !== 'traceparent' && (lower !== 'tracestate' || !trace.isNew))
}

/** Returns the lines that describe the client and, if the peer is trusted, what it says about those before it. */
function forwardingLines({ fields, names, host }: ProxiedRequest, peer: Peer): string {
  let forwardedHost: string | undefined
  let forwardedProto: string | undefined
  let forwardedFor = ''
  for (let i = 0; peer.isTrusted && i < names.length; i++) {
    if (!names[i]!.isForwarding) continue
    const value = fields[2 * i + 1]!
    const { lower } = names[i]!
    if (lower === 'x-forwarded-for') forwardedFor += `${value}, `
    else if (lower === 'x-forwarded-host') forwardedHost ??= value
    else if (lower === 'x-forwarded-proto') forwardedProto ??= value
  }
  const hostLine = forwardedHost === undefined && host === '' ? '' : `X-Forwarded-Host: ${forwardedHost ?? host}\r\n`
  return `X-Forwarded-For: ${forwardedFor}${peer.address}\r\n${hostLine}X-Forwarded-Proto: ${forwardedProto ?? peer.scheme}\r\n`
}

function bodyFraming({ isChunked, contentLength }: ProxiedRequest, bodyLength: number | undefined): string {
  if (bodyLength !== undefined) return isChunked || contentLength !== undefined ? `Content-Length: ${bodyLength}\r\n` : ''
  if (isChunked) return 'Transfer-Encoding: chunked\r\n'
  return contentLength === undefined ? '' : `Content-Length: ${contentLength}\r\n`
}
