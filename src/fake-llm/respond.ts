import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Asked, FakeCall } from './call.ts'
import { modelOf } from './completion.ts'
import { CREATED_SECONDS, type ErrorKind } from './dialect.ts'
import { openAiError } from './dialects/openai.ts'
import { findEndpoint } from './endpoints.ts'
import type { Failure } from './faults.ts'
import { FAILURE_MESSAGE, sendStream, sendWhole } from './send.ts'

/** Responds to a call whose body is complete. Throws an AbortError if the client disconnects. */
export async function respondTo(call: FakeCall): Promise<void> {
  const { request, res, options, signal } = call
  if (options.fail === 'hang') return neverRespond(call)
  const [path, query] = request.url.split(/\?(.*)/s, 2) as [string, string?]
  if (request.method === 'GET' && path === '/v1/models') return sendWhole(call, { body: MODELS, tokens: 0 })
  const endpoint = request.method === 'POST' ? findEndpoint(path, query ?? '') : undefined
  if (endpoint === undefined)
    return respond(res, 404, openAiError('bad-request', `no such endpoint: ${request.method} ${path}`, 'not_found'))
  const { dialect, model, framing = 'sse' } = endpoint
  const body = readBody(request.body)
  if (body === undefined) return respond(res, 400, dialect.errorBody('bad-request', 'the body is not a JSON object'))
  const asked = model === undefined ? body : { ...body, model }
  const isStream = endpoint.isStream ?? asked['stream'] === true
  const stream = isStream ? dialect.stream : undefined
  const status = failingStatus(options.fail, stream !== undefined)
  if (status !== undefined) {
    call.noteFailure()
    const { retryAfterS } = options
    if (retryAfterS !== undefined && (status === 429 || status === 503)) res.setHeader('Retry-After', retryAfterS)
    return respond(res, status, dialect.errorBody(errorKind(status), FAILURE_MESSAGE))
  }
  call.asked = { model: modelOf(asked), promptTokens: dialect.promptTokens(asked) }
  if (options.delayMs > 0) await sleep(options.delayMs, undefined, { signal })
  if (stream === undefined) await sendWhole(call, dialect.whole(asked, options))
  else await sendStream(call, stream, asked, framing)
}

async function neverRespond(call: FakeCall): Promise<void> {
  call.noteFailure()
  if (!call.signal.aborted) await once(call.signal, 'abort')
}

/** A response without events cannot carry an error event, so it fails with a status instead. */
function failingStatus(failure: Failure, isStream: boolean): number | undefined {
  if (typeof failure === 'number') return failure
  return failure === 'status' || (failure === 'error-event' && !isStream) ? 500 : undefined
}

function errorKind(status: number): ErrorKind {
  return status === 429 ? 'rate-limited' : status < 500 ? 'bad-request' : 'broken'
}

export function respond(res: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) })
  res.end(text)
}

function readBody(body: Buffer): Asked | undefined {
  try {
    const value: unknown = JSON.parse(body.toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Asked) : undefined
  } catch {
    return undefined
  }
}

/** The response to GET /v1/models. A request may name any model; this one is the default. */
const MODELS = {
  object: 'list',
  data: [{ id: 'fake-llm', object: 'model', created: CREATED_SECONDS, owned_by: 'edge' }],
} as const
