import { lookup } from 'node:dns/promises'
import { GrowingBuffer } from '../memory/growing-buffer.ts'
import { type AllowedHosts, mayFetch } from '../outbound/allowed-hosts.ts'
import { addressProblem } from '../outbound/guarded-lookup.ts'
import { requestFailure, withinTime } from '../outbound/request-failure.ts'
import type { BundleFormat } from '../policy/schema/bundle.ts'
import { parseAddress } from '../text/address.ts'
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
        await response.body?.cancel().catch(() => {})
      }
    } catch (error) {
      throw requestFailure(error as Error)
    }
  })
}

interface Followed {
  readonly response: Response
  readonly isTokenSent: boolean
}

/** Follows redirects itself, because fetch would also follow one from https to http. */
async function follow({ url, token, etag, userAgent, redirectHosts }: BundleRequest, signal: AbortSignal): Promise<Followed> {
  const headers = new Headers({
    Accept: 'application/json, application/yaml, */*;q=0.1',
    // The signature and the hash cover the bytes as they are, and a compressed body does not show whether it was truncated.
    'Accept-Encoding': 'identity',
    'User-Agent': userAgent,
  })
  if (token !== undefined) headers.set('Authorization', `Bearer ${token}`)
  if (etag !== undefined) headers.set('If-None-Match', etag)
  let from = url
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const response = await fetch(from, { headers, signal, redirect: 'manual' })
    if (!REDIRECTS.has(response.status)) return { response, isTokenSent: headers.has('Authorization') }
    await response.body?.cancel()
    const to = targetOf(response.headers.get('location'), from)
    if (to.origin !== url.origin) await checkPlace(to, redirectHosts)
    if (to.origin !== from.origin) headers.delete('Authorization') // and no later redirect restores it
    from = to
  }
  throw new Error(`it redirects more than ${MAX_REDIRECTS} times`)
}

function targetOf(location: string | null, from: URL): URL {
  if (location === null || !URL.canParse(location, from.href)) throw new Error('it redirects without a valid Location')
  const to = new URL(location, from)
  if (to.protocol !== 'https:' && to.protocol !== from.protocol) throw new Error(`it redirects from ${from.protocol} to ${to.protocol}`)
  if (`${to.username}${to.password}` !== '') throw new Error('it redirects to a URL with a user or a password')
  return to
}

/** Whoever answers for the URL must not be able to send requests anywhere: a redirect may lead to where a bundle may have a key set fetched. */
async function checkPlace(to: URL, hosts: AllowedHosts): Promise<void> {
  const expected = mayFetch(to.href, hosts)
  if (expected !== undefined) throw new Error(`it redirects to another origin: expected ${expected}`)
  for (const { address } of await lookup(to.hostname.replace(/^\[|\]$/g, ''), { all: true })) {
    const problem = addressProblem(parseAddress(address)!, to.protocol === 'http:')
    if (problem !== undefined) throw new Error(`it redirects to another origin: ${problem}`)
  }
}

async function readResponse({ url, etag, token }: BundleRequest, response: Response, isTokenSent: boolean): Promise<FetchedBundle> {
  const { status, headers } = response
  if (status === 304 && etag !== undefined) return { kind: 'unchanged' }
  if (status === 401 || status === 403) {
    if (token === undefined) throw new Error(`it returned ${status}: EDGE_CONFIG_TOKEN is not set`)
    if (isTokenSent) throw new Error(`it returned ${status}: EDGE_CONFIG_TOKEN is not accepted`)
    throw new Error(`it redirects to another origin, to which EDGE_CONFIG_TOKEN is not sent, and which returned ${status}`)
  }
  if (status !== 200) throw new Error(`it returned ${status}`)
  const coding = headers.get('content-encoding') ?? 'identity'
  if (coding.toLowerCase() !== 'identity') throw new Error('its body is compressed, which the request did not accept')
  // A body that ends with its connection may have been truncated anywhere, and half of a YAML file can be a valid bundle.
  if (!showsItsEnd(headers)) throw new Error('its body has neither Content-Length nor chunks, so a truncated one could not be detected')
  const bytes = await readResponseBody(response, MAX_BUNDLE_BYTES)
  const format = formatOfResponse(headers.get('content-type') ?? '', url.pathname, bytes)
  if (format === undefined) {
    return { kind: 'wrong_content', problem: 'it is an HTML page, not a bundle: is the URL correct, or does it require a login?' }
  }
  const signature = headers.get('x-edge-signature') || undefined
  return { kind: 'bundle', bundle: { bytes, format, signature }, etag: headers.get('etag') || undefined }
}

/** RFC 9112 6.3: a body whose last coding is not chunked ends with its connection, whatever Content-Length says. */
function showsItsEnd(headers: Headers): boolean {
  const codings = headers.get('transfer-encoding')
  return codings === null ? headers.has('content-length') : /(?:^|,)\s*chunked\s*$/i.test(codings)
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

/** Reads a response's body. Throws as soon as it exceeds `maxBytes`. */
async function readResponseBody(response: Response, maxBytes: number): Promise<Buffer> {
  const tooLarge = (): Error => new Error(`its body has more than ${maxBytes} bytes`)
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge()
  const body = new GrowingBuffer()
  for await (const chunk of response.body ?? []) {
    body.add(chunk)
    if (body.size > maxBytes) throw tooLarge()
  }
  return body.bytes
}
