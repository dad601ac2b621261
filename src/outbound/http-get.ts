import { lookup as systemLookup } from 'node:dns'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { LookupFunction } from 'node:net'
import { GrowingBuffer } from '../memory/growing-buffer.ts'
import { type Address, parseAddress } from '../text/address.ts'
import { isLinkLocal, isLoopback } from './allowed-hosts.ts'

export interface GetRequest {
  /** One that `mayFetch` allows. */
  readonly url: URL
  readonly accept: string
  readonly userAgent: string
  readonly maxBytes: number
  /** Timeout of the whole request: looking up the name, connecting and the body. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Resolves names; the system's resolver unless a test has its own. */
  readonly lookup?: LookupFunction | undefined
}

/**
 * Fetches a small document that a bundle names. `fetch` is not used, because it does not show the address that it connects to. Neither redirects nor
 * compressed bodies are accepted. Throws an Error whose message says what went wrong and contains nothing of the response.
 */
export function getDocument(request: GetRequest): Promise<Buffer> {
  return withinTime(request.timeoutMs, request.signal, async (signal) => {
    try {
      return await readDocument(await respondedTo(request, signal), request.maxBytes)
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === undefined ? error : new Error(describe(error as NodeJS.ErrnoException, false))
    }
  })
}

/** Runs `work` with a signal that ends it when the time is over, with an Error that says so, or when the caller's signal does. */
export async function withinTime<Result>(
  timeoutMs: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  // AbortSignal.any would leave an entry behind on the long-lived signal with each request.
  const ending = new AbortController()
  const end = (): void => ending.abort()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    end()
  }, timeoutMs).unref()
  signal.addEventListener('abort', end)
  if (signal.aborted) end()
  try {
    return await work(ending.signal)
  } catch (error) {
    throw isLate ? new Error(`no complete response within ${timeoutMs / 1000} s`) : error
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
  }
}

function respondedTo({ url, accept, userAgent, lookup = systemLookup }: GetRequest, signal: AbortSignal): Promise<IncomingMessage> {
  const isPlain = url.protocol === 'http:'
  const literal = parseAddress(url.hostname)
  const problem = literal && addressProblem(literal, isPlain)
  if (problem !== undefined) throw new Error(problem)
  const options = {
    headers: { Accept: accept, 'Accept-Encoding': 'identity', 'User-Agent': userAgent, Connection: 'close' },
    agent: false as const,
    lookup: guardedLookup(lookup, isPlain),
    signal,
  }
  return new Promise((resolve, reject) => {
    const request = isPlain ? requestHttp(url, options) : requestHttps(url, options)
    // It stays: an error may follow the response, for example when a slow body is ended.
    request.on('error', reject)
    request.on('response', resolve)
    request.end()
  })
}

/** A name may resolve to anything, and to something else each time it is asked for: so the addresses that will be connected to are checked. */
function guardedLookup(lookup: LookupFunction, isLoopbackOnly: boolean): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, options, (error, found, family) => {
      const addresses = typeof found === 'string' ? [found] : (found ?? []).map(({ address }) => address)
      const problem = error === null ? addresses.map((text) => textProblem(text, isLoopbackOnly)).find(Boolean) : undefined
      if (problem === undefined) callback(error, found, family)
      else callback(new Error(problem), found, family)
    })
}

function textProblem(text: string, isLoopbackOnly: boolean): string | undefined {
  const address = parseAddress(text)
  return address === undefined ? 'its host name resolves to something that is no address' : addressProblem(address, isLoopbackOnly)
}

function addressProblem(address: Address, isLoopbackOnly: boolean): string | undefined {
  if (isLinkLocal(address)) return 'its host is a link-local address, to which edge does not connect'
  if (isLoopbackOnly && !isLoopback(address))
    return 'its host is not a loopback address, and http:// is allowed to loopback addresses alone'
  return undefined
}

async function readDocument(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  try {
    const { statusCode: status = 0, headers } = response
    if (status >= 300 && status < 400 && status !== 304) throw new Error(`it returned ${status}, and redirects are not followed`)
    if (status !== 200) throw new Error(`it returned ${status}`)
    const coding = headers['content-encoding'] ?? 'identity'
    if (coding.toLowerCase() !== 'identity') throw new Error('its body is compressed, which the request did not accept')
    const tooLarge = (): Error => new Error(`its body has more than ${maxBytes} bytes`)
    if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge()
    const body = new GrowingBuffer()
    for await (const chunk of response) {
      body.add(chunk as Buffer)
      if (body.size > maxBytes) throw tooLarge()
    }
    return body.bytes
  } finally {
    response.destroy()
  }
}

const BROKE_OFF = 'the connection was closed before the response was complete'
const NO_TLS = 'it does not use TLS'

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  // Which of these codes occurs depends on timing.
  ECONNRESET: BROKE_OFF,
  EPIPE: BROKE_OFF,
  UND_ERR_SOCKET: BROKE_OFF,
  ENOTFOUND: 'its host name has no address',
  EAI_AGAIN: 'its host name could not be looked up',
  EHOSTUNREACH: 'its host is unreachable',
  ENETUNREACH: 'its network is unreachable',
  ETIMEDOUT: 'its host does not respond',
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  EPROTO: 'no TLS connection could be established: it may not use TLS',
  HPE_INVALID_CONSTANT: 'it does not use HTTP',
}

// RFC 8446 5.1 and 6: the first bytes of an alert, with which a TLS server may respond to plain HTTP.
const TLS_ALERT = '\x15\x03'

/** fetch reports only "fetch failed"; the real reason is in the cause. */
export function requestFailure(error: Error): Error {
  const cause = error.cause as (NodeJS.ErrnoException & { readonly data?: unknown }) | undefined
  if (cause === undefined) return error
  return new Error(describe(cause, true), { cause: error })
}

function describe({ code = '', message, data }: NodeJS.ErrnoException & { readonly data?: unknown }, mayBePlain: boolean): string {
  if (String(data).startsWith(TLS_ALERT)) return 'it uses TLS: should the URL be https://?'
  if (message === 'bad port') return 'its port is reserved for another protocol, and fetch does not connect to such ports'
  const description = DESCRIPTIONS[code] ?? message
  return description === NO_TLS && mayBePlain ? `${NO_TLS}: should the URL be http://?` : description
}
