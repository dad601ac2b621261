import type { IncomingMessage } from 'node:http'
import { readWholeBody } from '../../http/read-body.ts'
import { show } from '../../policy/problem.ts'
import { readRequestJson } from '../../policy/read-request-json.ts'
import { ApiError } from './api-error.ts'

/** Smaller than what closes the connection, so that the response arrives. */
const MAX_BYTES = 64 * 1024
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** The members of a request's JSON body, which must be an object. Its Content-Type does not matter. */
export async function readJsonBody(req: IncomingMessage, maxBytes = MAX_BYTES): Promise<Readonly<Record<string, unknown>>> {
  const { 'content-encoding': coding = 'identity', 'content-length': length = '0' } = req.headers
  if (coding.toLowerCase() !== 'identity') throw badBody('must not be compressed: leave Content-Encoding out')
  // Before it is sent, where the client says so.
  const body = Number(length) > maxBytes ? 'too_large' : await readWholeBody(req, maxBytes)
  if (body === 'too_large') throw badBody(`must not be larger than ${maxBytes / 1024} KiB`)
  if (body === 'gone') throw badBody('ended too early')
  const value = parse(body)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw badBody(`must be a JSON object, got ${show(value)}`)
  refuseProto(value)
  return value as Readonly<Record<string, unknown>>
}

/** Refuses members that nobody would read: a misspelt one would silently change nothing. */
export function refuseUnknown<Body>(body: Readonly<Record<string, unknown>>, known: readonly (keyof Body & string)[]): void {
  const unknown = Object.keys(body).filter((name) => !known.includes(name as keyof Body & string))
  if (unknown.length === 0) return
  const expected = known.length === 0 ? 'expected none' : `expected ${known.join(', ')}`
  throw new ApiError('bad_request', `unknown fields: ${unknown.slice(0, 10).map(show).join(', ')}; ${expected}`)
}

function parse(bytes: Buffer): unknown {
  if (bytes.length === 0) throw badBody('is empty: expected a JSON object')
  let text: string
  try {
    text = UTF_8.decode(bytes)
  } catch {
    throw badBody('is not valid UTF-8')
  }
  const read = readRequestJson(text)
  if ('syntax' in read) throw badBody(`cannot be read: ${read.syntax}`)
  return read.value
}

/** What follows may copy members by name. */
function refuseProto(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (name === '__proto__') throw badBody('has a member "__proto__", which is not allowed')
    refuseProto(member)
  }
}

function badBody(problem: string): ApiError {
  return new ApiError('bad_request', `the body ${problem}`)
}
