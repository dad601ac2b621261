import { quoted } from '../printable-text.ts'
import { show } from './problem.ts'
import { findRepeatedName } from './repeated-name.ts'

/** The parsed value, or why the text cannot be parsed. */
export type Read = { readonly value: unknown } | { readonly syntax: string }

/** Finding the place of a mistake parses the text about twenty times: in longer ones it is not looked for. */
const MAX_LOCATED_CHARACTERS = 2_000_000

export function readJson(text: string, maxLocated = MAX_LOCATED_CHARACTERS): Read {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    if (isCutOff(text)) return { syntax: `not JSON: it ends too early, at ${lineAndColumn(text, text.length)}` }
    return { syntax: text.length > maxLocated ? 'not JSON' : describeJsonError(text) }
  }
  const repeated = findRepeatedName(text)
  if (repeated === undefined) return { value }
  return { syntax: `${show(repeated.name)} occurs twice in one object, the second time at ${lineAndColumn(text, repeated.offset)}` }
}

/** V8 does not always report the position: it is the first character that cannot follow the text before it. */
function describeJsonError(text: string): string {
  let good = 0
  let bad = text.length
  while (bad - good > 1) {
    const middle = (good + bad) >>> 1
    if (isCutOff(text.slice(0, middle))) good = middle
    else bad = middle
  }
  return `not JSON: unexpected ${quoted(text[bad - 1]!)} at ${lineAndColumn(text, bad - 1)}`
}

/** Whether a text could be the start of valid JSON. */
function isCutOff(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    const { message } = error as Error
    const position = /at position (\d+)/.exec(message)?.[1]
    return message.includes('end of JSON input') || message.startsWith('Unterminated') || Number(position) === text.length
  }
}

function lineAndColumn(text: string, offset: number): string {
  const before = text.slice(0, offset).split('\n')
  return `line ${before.length}, column ${before.at(-1)!.length + 1}`
}
