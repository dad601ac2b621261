import { type JsonEvents, JsonScanner } from '../../../src/llm/json-scanner.ts'
import { isJson } from './json-spelling.ts'

export const NO_EVENTS: JsonEvents = { name() {}, string() {}, number() {}, literal() {}, begin() {}, end() {} }
export const LIMITS = { depth: 10, values: 10 }
const SIGNS = ['[', ']', '{', '}', ',', ':', '"', '0', ' ']

/** Whether the scanner takes a text for JSON that comes in pieces of this size. */
export function isScanned(text: string, pieceBytes = 1000): boolean {
  const scanner = new JsonScanner(NO_EVENTS, LIMITS)
  const bytes = Buffer.from(text)
  for (let from = 0; from < bytes.length; from += pieceBytes) scanner.push(bytes, from, Math.min(from + pieceBytes, bytes.length))
  return scanner.end()
}

/** Of all texts of up to so many signs, those of which the scanner says something else than JSON.parse. */
export function misjudgedTexts(maxSigns: number): string[] {
  const wrong: string[] = []
  const grow = (text: string): void => {
    if (isScanned(text) !== isJson(text)) wrong.push(text)
    if (text.length < maxSigns) for (const sign of SIGNS) grow(text + sign)
  }
  grow('')
  return wrong
}
