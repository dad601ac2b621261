import { withoutDebugCookie } from '../decide/debug-sessions.ts'
import { connectionNames } from '../http/connection-names.ts'
import { fieldName } from '../http/field-name.ts'
import { hasMember } from '../http/list-field.ts'
import type { OutgoingTrace } from '../telemetry/tracing/request-trace.ts'
import { isForwardingField } from './forwarding-fields.ts'
import type { Peer } from './peer.ts'
import type { ProxiedRequest } from './proxied-request.ts'

/** Written anew, or meant for us alone. */
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

export interface RequestHeadOptions {
  readonly host: string
  readonly target: string
  /** The length of a body that we hold; undefined: the body is framed as it came. */
  readonly bodyLength: number | undefined
  /** The response is to be read, so it had better not be compressed. */
  readonly asksForIdentity: boolean
  /** In place of the client's own; undefined where the request is not traced, and the client's is passed on. */
  readonly trace: OutgoingTrace | undefined
}

/** The head of the backend's request: order, spelling and bytes of the client's fields are kept. */
export function requestHead(request: ProxiedRequest, peer: Peer, options: RequestHeadOptions): string {
  const { fields, method } = request
  const { trace } = options
  const named = connectionNames(request.connection)
  let head = `${method} ${options.target} HTTP/1.1\r\nHost: ${options.host}\r\n`
  let forwardedHost: string | undefined
  let forwardedProto: string | undefined
  let forwardedFor = ''
  for (let i = 0; i < fields.length; i += 2) {
    const { lower: name, isHopByHop } = fieldName(fields[i]!)
    const value = fields[i + 1]!
    if (peer.isTrusted) {
      if (name === 'x-forwarded-for') forwardedFor += `${value}, `
      else if (name === 'x-forwarded-host') forwardedHost ??= value
      else if (name === 'x-forwarded-proto') forwardedProto ??= value
    } else if (isForwardingField(name)) continue
    if (isHopByHop || OWN.has(name) || named?.has(name) === true) continue
    if (name === 'accept-encoding' && options.asksForIdentity) continue
    if (trace !== undefined && (name === 'traceparent' || (name === 'tracestate' && trace.isNew))) continue
    const kept = name === 'cookie' ? withoutDebugCookie(value) : value
    if (kept !== undefined) head += `${fields[i]}: ${kept}\r\n`
  }
  if (options.asksForIdentity) head += 'Accept-Encoding: identity\r\n'
  if (trace !== undefined) head += `traceparent: ${trace.traceparent}\r\n`
  if (request.isUpgrade) head += 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
  // RFC 9110 10.1.4: trailers are passed on, so they may be asked for
  else if (asksForTrailers(request)) head += 'Connection: TE\r\nTE: trailers\r\n'
  head += `X-Forwarded-For: ${forwardedFor}${peer.address}\r\n`
  if (forwardedHost !== undefined || request.host !== '') head += `X-Forwarded-Host: ${forwardedHost ?? request.host}\r\n`
  head += `X-Forwarded-Proto: ${forwardedProto ?? 'http'}\r\nVia: ${request.version} edge\r\n`
  return `${head}${bodyFraming(request, options.bodyLength)}\r\n`
}

function asksForTrailers(request: ProxiedRequest): boolean {
  const te = request.header('te')
  return te !== undefined && hasMember(te, 'trailers')
}

function bodyFraming({ isChunked, contentLength }: ProxiedRequest, bodyLength: number | undefined): string {
  if (bodyLength !== undefined) return isChunked || contentLength !== undefined ? `Content-Length: ${bodyLength}\r\n` : ''
  if (isChunked) return 'Transfer-Encoding: chunked\r\n'
  return contentLength === undefined ? '' : `Content-Length: ${contentLength}\r\n`
}
