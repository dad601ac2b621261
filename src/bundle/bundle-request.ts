import { lookup as systemLookup } from 'node:dns'
import type { IncomingMessage } from 'node:http'
import type { LookupFunction } from 'node:net'
import { type AllowedHosts, mayFetch } from '../outbound/allowed-hosts.ts'
import { guardedResponse, readWhole, responseOf } from '../outbound/http-get.ts'
import { describeFailure, withinTime } from '../outbound/request-failure.ts'
import type { BundleFormat } from '../policy/schema/bundle.ts'
import { MAX_BUNDLE_BYTES, type OfferedBundle } from './bundle-source.ts'

export interface BundleRequest {
  readonly url: URL
  /** A bearer token, which is sent only to the URL's own origin. */
  readonly token: string | undefined
  /** Where else than to its own origin the URL may redirect. */
  readonly redirectHosts: AllowedHosts
  /** ETag of the active bundle. */
  readonly etag: string | undefined
  readonly userAgent: string
  /** Timeout of the whole request: connecting, redirects and the body. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Resolves names; the system's resolver unless a test has its own. */
  readonly lookup?: LookupFunction | undefined
}

export type FetchedBundle =
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'wrong_content'; readonly problem: string }
  | { readonly kind: 'bundle'; readonly bundle: OfferedBundle; readonly etag: string | undefined }

const MAX_REDIRECTS = 5
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/** Fetches the bundle once. Throws an Error whose message says what went wrong and contains no secret. */
export function requestBundle(request: BundleRequest): Promise<FetchedBundle> {
  return withinTime(request.timeoutMs, request.signal, async (signal) => {
    try {
      const { response, isTokenSent } = await follow(request, signal)
      try {
        return await readResponse(request, response, isTokenSent)
      } finally {
        // An unread body would keep its connection open.
        response.destroy()
      }
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === undefined ? error : new Error(describeFailure(error as NodeJS.ErrnoException, true))
    }
  })
}

interface Followed {
  readonly response: IncomingMessage
  readonly isTokenSent: boolean
}

/** Whoever answers for the URL must not be able to send requests anywhere: a redirect may lead to where a bundle may have a key set fetched. */
async function follow({ url, redirectHosts, lookup = systemLookup, ...request }: BundleRequest, signal: AbortSignal): Promise<Followed> {
  let { token } = request
  let from = url
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const head = { headers: headersOf(request, token), lookup, signal }
    const response = await (from.origin === url.origin ? responseOf(from, head) : guardedResponse(from, head).catch(elsewhere))
    if (!REDIRECTS.has(response.statusCode!)) return { response, isTokenSent: token !== undefined }
    response.destroy()
    const to = targetOf(response.headers.location, from)
    const expected = to.origin === url.origin ? undefined : mayFetch(to.href, redirectHosts)
    if (expected !== undefined) elsewhere(new Error(`expected ${expected}`))
    if (to.origin !== from.origin) token = undefined // and no later redirect restores it
    from = to
  }
  throw new Error(`it redirects more than ${MAX_REDIRECTS} times`)
}

function headersOf({ etag, userAgent }: Pick<BundleRequest, 'etag' | 'userAgent'>, token: string | undefined): Record<string, string> {
  return {
    Accept: 'application/json, application/yaml, */*;q=0.1',
    // The signature and the hash cover the bytes as they are, and a compressed body does not show whether it was truncated.
    'Accept-Encoding': 'identity',
    'User-Agent': userAgent,
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    ...(etag !== undefined && { 'If-None-Match': etag }),
  }
}

function elsewhere(error: NodeJS.ErrnoException): never {
  throw error.code === undefined ? new Error(`it redirects to another origin: ${error.message}`) : error
}

function targetOf(location: string | undefined, from: URL): URL {
  if (location === undefined || !URL.canParse(location, from.href)) throw new Error('it redirects without a valid Location')
  const to = new URL(location, from)
  if (to.protocol !== 'https:' && to.protocol !== from.protocol) throw new Error(`it redirects from ${from.protocol} to ${to.protocol}`)
  if (`${to.username}${to.password}` !== '') throw new Error('it redirects to a URL with a user or a password')
  return to
}

async function readResponse({ url, etag, token }: BundleRequest, response: IncomingMessage, isTokenSent: boolean): Promise<FetchedBundle> {
  const { statusCode: status, headers } = response
  if (status === 304 && etag !== undefined) return { kind: 'unchanged' }
  if (status === 401 || status === 403) {
    if (token === undefined) throw new Error(`it returned ${status}: EDGE_CONFIG_TOKEN is not set`)
    if (isTokenSent) throw new Error(`it returned ${status}: EDGE_CONFIG_TOKEN is not accepted`)
    throw new Error(`it redirects to another origin, to which EDGE_CONFIG_TOKEN is not sent, and which returned ${status}`)
  }
  if (status !== 200) throw new Error(`it returned ${status}`)
  // A body that ends with its connection may have been truncated anywhere, and half of a YAML file can be a valid bundle.
  if (!showsItsEnd(headers)) throw new Error('its body has neither Content-Length nor chunks, so a truncated one could not be detected')
  const bytes = await readWhole(response, MAX_BUNDLE_BYTES)
  const format = formatOfResponse(headers['content-type'] ?? '', url.pathname, bytes)
  if (format === undefined) {
    return { kind: 'wrong_content', problem: 'it is an HTML page, not a bundle: is the URL correct, or does it require a login?' }
  }
  const signature = headers['x-edge-signature']?.toString() || undefined
  return { kind: 'bundle', bundle: { bytes, format, signature }, etag: headers.etag || undefined }
}

/** RFC 9112 6.3: a body whose last coding is not chunked ends with its connection, whatever Content-Length says. */
function showsItsEnd({ 'transfer-encoding': codings, 'content-length': length }: IncomingMessage['headers']): boolean {
  return codings === undefined ? length !== undefined : /(?:^|,)\s*chunked\s*$/i.test(codings)
}

/** Determines the format by the media type, else by the path's extension, else by the first character. Returns undefined for an HTML page. */
function formatOfResponse(contentType: string, path: string, bytes: Buffer): BundleFormat | undefined {
  const type = contentType.split(';')[0]!.trim()
  const start = bytes
    .toString('latin1', 0, 256)
    .replace(/^\xef\xbb\xbf/, '')
    .trimStart()
  if (/^(?:text\/html|application\/xhtml\+xml)$/i.test(type) || /^<(?:!doctype\s+html|html)\b/i.test(start)) return undefined
  if (/^(?:application|text)\/(?:[\w.-]+\+)?json$/i.test(type)) return 'json'
  if (/^(?:application|text)\/(?:x-|vnd\.|[\w.-]+\+)?yaml$/i.test(type)) return 'yaml'
  if (/\.json$/i.test(path)) return 'json'
  if (/\.ya?ml$/i.test(path)) return 'yaml'
  return start.startsWith('{') ? 'json' : 'yaml'
}
