import { headerValue } from './raw-headers.ts'

/** Whether a response with these fields is a stream of server-sent events. */
export function isEventStream(fields: readonly string[]): boolean {
  return /^text\/event-stream\s*(?:;|$)/i.test(headerValue(fields, 'content-type') ?? '')
}
