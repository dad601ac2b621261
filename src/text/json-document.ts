import { quoted } from './printable.ts'
import { show } from './problem.ts'

/** The parsed value, or why the text cannot be parsed. The sentence names the place, if that is known. */
export type Read = { readonly value: unknown } | { readonly syntax: string; readonly line?: number; readonly column?: number }

/** Locating a syntax error parses the text about twenty times, so errors in longer texts are not located. */
const MAX_LOCATED_CHARACTERS = 2_000_000

export function readJson(text: string, maxLocated = MAX_LOCATED_CHARACTERS): Read {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    if (isCutOff(text)) return syntaxAt('not JSON: it ends too early,', text, text.length)
    return text.length > maxLocated ? { syntax: 'not JSON' } : describeJsonError(text)
  }
  const repeated = findRepeatedName(text)
  if (repeated === undefined) return { value }
  return syntaxAt(`${show(repeated.name)} occurs twice in one object, the second time`, text, repeated.offset)
}

/** Finds the first character that cannot follow the text before it, because V8 does not always report its position. */
function describeJsonError(text: string): Read {
  let good = 0
  let bad = text.length
  while (bad - good > 1) {
    const middle = (good + bad) >>> 1
    if (isCutOff(text.slice(0, middle))) good = middle
    else bad = middle
  }
  return syntaxAt(`not JSON: unexpected ${quoted(text[bad - 1]!)}`, text, bad - 1)
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

function syntaxAt(problem: string, text: string, offset: number): Read {
  const before = text.slice(0, offset).split('\n')
  const [line, column] = [before.length, before.at(-1)!.length + 1]
  return { syntax: `${problem} at line ${line}, column ${column}`, line, column }
}

/** Deeper than any request needs to be. */
const MAX_LEVELS = 16
/** Syntax errors in longer texts are not located, because that parses the text many times. */
const MAX_LOCATED_IN_REQUEST = 2048

/** Reads JSON from a request, on a thread that also serves others: 64 KiB take a few milliseconds at most, whatever they contain. */
export function readRequestJson(text: string): Read {
  // The depth is checked first, because thousands of levels take long to parse.
  return isDeep(text) ? { syntax: `it has more than ${MAX_LEVELS} levels of lists and objects` } : readJson(text, MAX_LOCATED_IN_REQUEST)
}

function isDeep(text: string): boolean {
  let levels = 0
  let isInString = false
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    if (character === '"') isInString = !isInString
    else if (isInString) i += character === '\\' ? 1 : 0
    else if (character === ']' || character === '}') levels--
    else if ((character === '[' || character === '{') && ++levels > MAX_LEVELS) return true
  }
  return false
}

/** A name that occurs twice in one object. */
export interface RepeatedName {
  readonly name: string
  /** Offset of its second occurrence in the text. */
  readonly offset: number
}

/** Finds the first name that occurs twice in one object, of which `JSON.parse` silently keeps the last. The text must be valid JSON. */
export function findRepeatedName(json: string): RepeatedName | undefined {
  /** The names of each open object; undefined for lists. */
  const open: (Set<string> | undefined)[] = []
  let isName = false
  for (let i = 0; i < json.length; i++) {
    switch (json[i]) {
      case '{':
      case '[':
        isName = json[i] === '{'
        open.push(isName ? new Set() : undefined)
        break
      case '}':
      case ']':
        open.pop()
        break
      case ',':
        isName = open.at(-1) !== undefined
        break
      case '"': {
        const start = i
        i = closingQuote(json, start)
        if (!isName) break
        isName = false
        const name = JSON.parse(json.slice(start, i + 1)) as string
        const names = open.at(-1)!
        if (names.has(name)) return { name, offset: start }
        names.add(name)
      }
    }
  }
  return undefined
}

export function closingQuote(json: string, openingQuote: number): number {
  let i = openingQuote + 1
  while (json[i] !== '"') i += json[i] === '\\' ? 2 : 1
  return i
}
