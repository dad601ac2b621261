/** A name that occurs twice in one object. */
export interface RepeatedName {
  readonly name: string
  /** Where in the text its second occurrence is. */
  readonly offset: number
}

/** The first name that occurs twice in one object. `JSON.parse` silently keeps the last one. The text must be valid JSON. */
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

function closingQuote(json: string, openingQuote: number): number {
  let i = openingQuote + 1
  while (json[i] !== '"') i += json[i] === '\\' ? 2 : 1
  return i
}
