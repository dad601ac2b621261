/**
 * Inserts a usage object into the JSON text of an event without writing the JSON again: unknown fields, the spelling of
 * numbers and the order of keys are preserved. Works on bytes: the structure of JSON is ASCII.
 */
export function spliceUsage(bytes: Buffer, spans: readonly number[], usage: string, replacesNull: boolean): Buffer {
  if (replacesNull) {
    const at = findUsageNull(bytes, spans)
    return at < 0 ? bytes : joined(bytes, at, at + 4, usage)
  }
  const brace = lastBrace(bytes, spans)
  const isEmpty = previousSign(bytes, spans, brace) === OPEN_OBJECT
  return joined(bytes, brace, brace, `${isEmpty ? '' : ','}"usage":${usage}`)
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const LETTER_N = 0x6e

function joined(bytes: Buffer, from: number, to: number, text: string): Buffer {
  const result = Buffer.allocUnsafe(bytes.length - (to - from) + text.length)
  // Copied whole, because a view of the first part costs more than the few bytes that are then overwritten.
  result.set(bytes.length <= result.length ? bytes : bytes.subarray(0, from), 0)
  result.write(text, from, 'latin1')
  const shift = from + text.length - to
  for (let i = to; i < bytes.length; i++) result[i + shift] = bytes[i]!
  return result
}

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
