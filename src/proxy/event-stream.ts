import { headerValue } from '../http/raw-headers.ts'
import type { ResponseHead } from './backend/response-head.ts'

/** Whether a response is a stream of server-sent events. */
export function isEventStream({ fields }: ResponseHead): boolean {
  return /^text\/event-stream\s*(?:;|$)/i.test(headerValue(fields, 'content-type') ?? '')
}
