/** How usage is put into the JSON text of an event. */
export interface UsagePlace {
  readonly at: number
  /** How many bytes it takes the place of. */
  readonly replaced: number
  /** What comes before it. */
  readonly before: string
}

/**
 * Finds the place without writing the JSON again: unknown fields, the spelling of numbers and the order of keys are preserved. `usage` is what
 * the object has now; undefined is returned where that must stay. Works on bytes: the structure of JSON is ASCII.
 */
export function usagePlace(bytes: Buffer, spans: readonly number[], usage: unknown): UsagePlace | undefined {
  if (usage === null) {
    const at = findUsageNull(bytes, spans)
    return at < 0 ? undefined : { at, replaced: 4, before: '' }
  }
  if (usage !== undefined) return undefined
  const brace = lastBrace(bytes, spans)
  const isEmpty = previousSign(bytes, spans, brace) === OPEN_OBJECT
  return { at: brace, replaced: 0, before: isEmpty ? '"usage":' : ',"usage":' }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const LETTER_N = 0x6e

/** The brace that ends the object: the last one in the data. */
function lastBrace(bytes: Buffer, spans: readonly number[]): number {
  for (let i = spans.length - 2; i >= 0; i -= 2) {
    for (let at = spans[i + 1]! - 1; at >= spans[i]!; at--) if (bytes[at] === CLOSE_OBJECT) return at
  }
  return -1
}

function previousSign(bytes: Buffer, spans: readonly number[], before: number): number {
  for (let i = spans.length - 2; i >= 0; i -= 2) {
    for (let at = Math.min(spans[i + 1]!, before) - 1; at >= spans[i]!; at--) if (!isSpace(bytes[at]!)) return bytes[at]!
  }
  return -1
}

/** Where the `null` of the object's own `usage` is; of several, the last, which JSON.parse takes. */
function findUsageNull(bytes: Buffer, spans: readonly number[]): number {
  let depth = 0
  let isInString = false
  let stringStart = 0
  let isUsage = false
  let found = -1
  for (let i = 0; i < spans.length; i += 2) {
    for (let at = spans[i]!; at < spans[i + 1]!; at++) {
      const byte = bytes[at]!
      if (isInString) {
        if (byte === BACKSLASH) at++
        else if (byte === QUOTE) {
          isInString = false
          isUsage = depth === 1 && at - stringStart === 6 && bytes.toString('latin1', stringStart + 1, at) === 'usage'
        }
      } else if (byte === QUOTE) {
        isInString = true
        stringStart = at
      } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++
      else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth--
      // Only a name is followed by a colon and then `n`; a string value is followed by a comma or a bracket.
      else if (byte === LETTER_N && isUsage && depth === 1) found = at
      else if (byte === COMMA) isUsage = false
    }
  }
  return found
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d
}
