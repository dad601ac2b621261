import type { StreamEvent } from './dialect.ts'
import { LINE_ENDS, type LineEnd } from './options.ts'

/** A server-sent event. JSON has no line ends of its own, so one data line is enough. */
export function sseEventText({ name, data }: StreamEvent, lineEnd: LineEnd): string {
  const end = LINE_ENDS[lineEnd]
  const lines = [`data: ${typeof data === 'string' ? data : JSON.stringify(data)}`]
  if (name !== undefined) lines.unshift(`event: ${name}`)
  return lines.map((line) => `${line}${end}`).join('') + end
}
