import { type Read, readJson } from './read-json.ts'

/** Deeper than anything that a request has to say. */
const MAX_LEVELS = 16
/** In longer texts the place of a mistake is not looked for: that parses them many times. */
const MAX_LOCATED_CHARACTERS = 2048

/** Reads JSON that came in a request, on a thread that serves others meanwhile: one of 64 KiB takes a few milliseconds at most, however it is made. */
export function readRequestJson(text: string): Read {
  // Before it is parsed: thousands of levels take long.
  return isDeep(text) ? { syntax: `it has more than ${MAX_LEVELS} levels of lists and objects` } : readJson(text, MAX_LOCATED_CHARACTERS)
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
