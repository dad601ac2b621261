import type { IncomingMessage } from 'node:http'
import { ApiError } from './api-error.ts'

/** The members of a request's JSON body, which must be an object. The admin server bounds its size. */
export async function readJsonBody(req: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new ApiError('bad_request', 'the body is not valid JSON')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ApiError('bad_request', 'the body must be a JSON object')
  return value as Readonly<Record<string, unknown>>
}

/** Refuses members that nobody would read: a misspelt one would silently change nothing. */
export function refuseUnknown(body: Readonly<Record<string, unknown>>, known: readonly string[]): void {
  const unknown = Object.keys(body).filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new ApiError('bad_request', `unknown fields: ${unknown.join(', ')}; expected ${known.join(', ')}`)
}
