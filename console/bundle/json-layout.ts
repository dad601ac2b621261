/** A text with a longer line was written by a program for programs. */
const MAX_LINE_CHARACTERS = 200
/** Deeper levels are not indented any further, so that the text cannot grow beyond measure. */
const MAX_INDENTED_LEVELS = 20
const CHARACTERS_A_SLICE = 100_000

/** Returns whether a text has lines that nobody can read. */
export function hasLongLines(text: string): boolean {
  for (let from = 0; from + MAX_LINE_CHARACTERS < text.length; ) {
    const end = text.lastIndexOf('\n', from + MAX_LINE_CHARACTERS)
    if (end < from) return true
    from = end + 1
  }
  return false
}

/** Puts each member of a JSON text on a line of its own. Numbers and strings stay as they are written. The text must be valid. */
export function* laidOut(json: string): Generator<void, string> {
  const pieces: string[] = []
  const newLine = (): string => `\n${'  '.repeat(Math.min(depth, MAX_INDENTED_LEVELS))}`
  let depth = 0
  /** Whether the last token opened an object or a list. */
  let isOpened = false
  let sliceEnd = CHARACTERS_A_SLICE
  for (let at = 0; at < json.length; ) {
    const end = tokenEnd(json, at)
    const token = json.slice(at, end).trim()
    at = end
    if (token === '{' || token === '[') {
      depth++
      pieces.push(token, newLine())
    } else if (token === '}' || token === ']') {
      depth--
      // An empty object stays on its line.
      if (isOpened) pieces.pop()
      else pieces.push(newLine())
      pieces.push(token)
    } else if (token === ',') pieces.push(token, newLine())
    else if (token !== '') pieces.push(token === ':' ? ': ' : token)
    if (token !== '') isOpened = token === '{' || token === '['
    if (at < sliceEnd) continue
    sliceEnd = at + CHARACTERS_A_SLICE
    yield
  }
  return `${pieces.join('')}\n`
}

const PUNCTUATION = '{}[],:'

/** Returns the end of the token at a position: a string, a sign, or everything up to the next of these. */
function tokenEnd(json: string, start: number): number {
  if (PUNCTUATION.includes(json[start]!)) return start + 1
  let end = start + 1
  if (json[start] === '"') {
    while (end < json.length && json[end] !== '"') end += json[end] === '\\' ? 2 : 1
    return end + 1
  }
  while (end < json.length && json[end] !== '"' && !PUNCTUATION.includes(json[end]!)) end++
  return end
}
