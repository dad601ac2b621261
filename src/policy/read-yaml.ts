import { isMap, isScalar, LineCounter, parseAllDocuments, visit } from 'yaml'
import type { Read } from './read-json.ts'

/**
 * Reads one YAML document. Checks of the parser that take quadratic time are off, so that a megabyte of nonsense costs
 * seconds at most: its pretty errors (one frame of text for each of a million), and its search for repeated keys.
 */
export function readYaml(text: string): Read {
  if (isNestedTooDeeply(text)) return { syntax: 'not YAML that can be read: nested too deeply' }
  try {
    const lines = new LineCounter()
    const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
    if (documents.length !== 1) return { syntax: 'expected one YAML document' }
    const document = documents[0]!
    // The first error is the cause; those after it are its echo.
    const first = document.errors[0]
    if (first) return { syntax: `not YAML: ${shorten(first.message)} at ${place(lines, first.pos[0])}` }
    const repeated = repeatedKey(document)
    if (repeated)
      return { syntax: `not YAML: ${JSON.stringify(repeated.key)} stands twice in one mapping, at ${place(lines, repeated.offset)}` }
    return { value: document.toJS() }
  } catch (error) {
    return { syntax: `not YAML that can be read: ${shorten((error as Error).message)}` } // such as too many aliases
  }
}

const MAX_DEPTH = 100

/** Counts brackets wherever they stand: a bundle is six levels deep, and no text in it has a hundred open brackets. */
function isNestedTooDeeply(text: string): boolean {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const char = text[i]
    if (char === '[' || char === '{') depth++
    else if ((char === ']' || char === '}') && depth > 0) depth--
    if (depth > MAX_DEPTH) return true
  }
  return /(?:[-?:] ){100}/.test(text)
}

function repeatedKey(document: Parameters<typeof visit>[0]): { key: string; offset: number } | undefined {
  let found: { key: string; offset: number } | undefined
  visit(document, {
    Map(_key, map) {
      const seen = new Set<unknown>()
      for (const { key } of isMap(map) ? map.items : []) {
        if (!isScalar(key)) continue
        if (seen.has(key.value)) {
          found = { key: String(key.value), offset: key.range?.[0] ?? 0 }
          return visit.BREAK
        }
        seen.add(key.value)
      }
      return undefined
    },
  })
  return found
}

function place(lines: LineCounter, offset: number): string {
  const { line, col } = lines.linePos(offset)
  return `line ${line}, column ${col}`
}

/** Some messages repeat the text that they are about. */
function shorten(message: string): string {
  if (message.startsWith('Maximum call stack')) return 'nested too deeply'
  return message.length > 160 ? `${message.slice(0, 160)}…` : message
}
