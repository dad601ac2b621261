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

/**
 * Fetches a small document that a bundle names. `fetch` is not used, because it does not show the address that it connects to. Neither redirects nor
 * compressed bodies are accepted. Throws an Error whose message says what went wrong and contains nothing of the response.
 */
export function getDocument(request: GetRequest): Promise<Buffer> {
  return withinTime(request.timeoutMs, request.signal, async (signal) => {
    try {
      return await readDocument(await respondedTo(request, signal), request.maxBytes)
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === undefined ? error : new Error(describeFailure(error as NodeJS.ErrnoException, false))
    }
  })
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
