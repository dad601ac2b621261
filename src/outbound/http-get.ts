import { lookup as systemLookup } from 'node:dns'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { LookupFunction } from 'node:net'
import { GrowingBuffer } from '../memory/growing-buffer.ts'
import { parseAddress } from '../text/address.ts'
import { addressProblem, guardedLookup } from './guarded-lookup.ts'
import { describeFailure, withinTime } from './request-failure.ts'

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

export interface GetHead {
  readonly headers: Readonly<Record<string, string>>
  readonly lookup: LookupFunction
  readonly signal: AbortSignal
}

/**
 * Fetches a small document that a bundle names. Neither redirects nor compressed bodies are accepted. Throws an Error whose message says what went wrong and contains nothing of the response.
 */
export function getDocument(request: GetRequest): Promise<Buffer> {
  return withinTime(request.timeoutMs, request.signal, async (signal) => {
    try {
      const { url, accept, userAgent, lookup = systemLookup } = request
      const headers = { Accept: accept, 'Accept-Encoding': 'identity', 'User-Agent': userAgent }
      return await readDocument(await guardedResponse(url, { headers, lookup, signal }), request.maxBytes)
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === undefined ? error : new Error(describeFailure(error as NodeJS.ErrnoException, false))
    }
  })
}

/** Sends a request to a URL that somebody else chose, if its host has addresses to which edge connects. */
export async function guardedResponse(url: URL, { lookup, ...head }: GetHead): Promise<IncomingMessage> {
  const isPlain = url.protocol === 'http:'
  const literal = parseAddress(url.hostname)
  const problem = literal && addressProblem(literal, isPlain)
  if (problem !== undefined) throw new Error(problem)
  return responseOf(url, { ...head, lookup: guardedLookup(lookup, isPlain) })
}

/** Resolves with the head of a response. `fetch` is not used, because it does not show the address that it connects to. */
export function responseOf(url: URL, { headers, lookup, signal }: GetHead): Promise<IncomingMessage> {
  const options = { headers: { ...headers, Connection: 'close' }, agent: false as const, lookup, signal }
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'http:' ? requestHttp(url, options) : requestHttps(url, options)
    // It stays: an error may follow the response, for example when a slow body is ended.
    request.on('error', reject)
    request.on('response', resolve)
    // Without this, a response that switches protocols would end the connection and settle nothing.
    request.on('upgrade', ({ statusCode }, socket) => {
      socket.destroy()
      reject(new Error(`it returned ${statusCode}`))
    })
    request.end()
  })
}

async function readDocument(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  try {
    const { statusCode: status = 0 } = response
    if (status >= 300 && status < 400 && status !== 304) throw new Error(`it returned ${status}, and redirects are not followed`)
    if (status !== 200) throw new Error(`it returned ${status}`)
    return await readWhole(response, maxBytes)
  } finally {
    response.destroy()
  }
}

/** Reads a response's body. Throws if it is compressed, and as soon as it exceeds `maxBytes`. */
export async function readWhole(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const { 'content-encoding': coding = 'identity', 'content-length': length = '0' } = response.headers
  if (coding.toLowerCase() !== 'identity') throw new Error('its body is compressed, which the request did not accept')
  const tooLarge = (): Error => new Error(`its body has more than ${maxBytes} bytes`)
  if (Number(length) > maxBytes) throw tooLarge()
  const body = new GrowingBuffer()
  for await (const chunk of response) {
    body.add(chunk as Buffer)
    if (body.size > maxBytes) throw tooLarge()
  }
  return body.bytes
}
