import type { JsonEvents } from './json-events.ts'
import { JsonScanner } from './json-scanner.ts'
import type { SsePiece } from './sse-framing.ts'

/** The data of an event, and where it is among the bytes that the event is in. */
export interface EventData {
  readonly text: string
  /** Start and end of the value of each `data` line. */
  readonly spans: readonly number[]
}

/** Joins the `data` lines of an event; undefined when it has none. Comments and other fields are ignored. */
export function readEventData({ bytes, start, lines, lineCount, isFirst }: SsePiece): EventData | undefined {
  const spans: number[] = []
  for (let i = 0; i < lineCount; i += 2) {
    const end = start + lines[i + 1]!
    const mark = isFirst && i === 0 && hasByteOrderMark(bytes, start) ? BYTE_ORDER_MARK_BYTES : 0
    const value = dataStart(bytes, start + lines[i]! + mark, end)
    if (value >= 0) spans.push(value, end)
  }
  if (spans.length === 0) return undefined
  let text = bytes.toString('utf8', spans[0], spans[1])
  for (let i = 2; i < spans.length; i += 2) text += `\n${bytes.toString('utf8', spans[i], spans[i + 1])}`
  return { text, spans }
}

/** An event up to this size is parsed within two or three milliseconds, whatever it contains. */
const SMALL_EVENT_BYTES = 64 * 1024
/** For a larger one. A mebibyte of log probabilities stays below this, a mebibyte of `{},` has twice as many values. */
const LARGE_EVENT_LIMITS = { depth: 1000, values: 150_000 }

/** Whether the data of an event can be parsed without blocking the event loop for long. */
export function canBeParsed({ bytes, start, end }: SsePiece, { spans }: EventData): boolean {
  if (end - start <= SMALL_EVENT_BYTES) return true
  const scanner = new JsonScanner(NO_EVENTS, LARGE_EVENT_LIMITS)
  for (let i = 0; i < spans.length; i += 2) scanner.push(bytes, spans[i], spans[i + 1])
  return !scanner.isBeyondLimits
}

const NO_EVENTS: JsonEvents = { name() {}, string() {}, number() {}, literal() {}, begin() {}, end() {} }
const BYTE_ORDER_MARK_BYTES = 3
const COLON = 0x3a
const SPACE = 0x20

function hasByteOrderMark(bytes: Buffer, at: number): boolean {
  return bytes[at] === 0xef && bytes[at + 1] === 0xbb && bytes[at + 2] === 0xbf
}

/** Where the value of a `data` line begins, or -1 for another line. One space after the colon is skipped. */
function dataStart(bytes: Buffer, start: number, end: number): number {
  if (bytes[start] !== 0x64 || bytes[start + 1] !== 0x61 || bytes[start + 2] !== 0x74 || bytes[start + 3] !== 0x61) return -1
  const colon = start + 4
  if (colon === end) return end
  if (colon > end || bytes[colon] !== COLON) return -1
  return colon + 1 < end && bytes[colon + 1] === SPACE ? colon + 2 : colon + 1
}
