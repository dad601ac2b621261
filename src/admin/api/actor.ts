import type { IncomingMessage } from 'node:http'
import { fieldValue } from '../../http/raw-headers.ts'
import { ApiError } from './api-error.ts'

const MAX_CHARACTERS = 128
/** Of a header field, whose characters are bytes. */
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** Who asks, by the field `X-Edge-Actor`; `unknown` without it. */
export function actorOf({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): string {
  const value = fieldValue(rawHeaders, 'x-edge-actor')
  if (typeof value === 'symbol') throw new ApiError('bad_request', 'X-Edge-Actor comes more than once')
  return actorName(value === undefined ? '' : decoded(value))
}

/** A name that logs, terminals and pages can show: without control characters and marks that hide or reorder others, and not too long. */
export function actorName(text: string): string {
  const shown = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?').trim()
  return [...shown.slice(0, 2 * MAX_CHARACTERS)].slice(0, MAX_CHARACTERS).join('') || 'unknown'
}

/** Bytes that are no UTF-8 are Latin-1, as Node reads them. */
function decoded(value: string): string {
  try {
    return UTF_8.decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}
