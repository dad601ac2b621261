import { load, type Schema, YAMLException } from 'js-yaml'
import type { Read } from './read-json.ts'

export const YAML_MAX_DEPTH = 50
/** Each may refer to a list of others: this bounds the expansion of a small file. */
const MAX_ALIASES = 1000

/** Reads one YAML document. `schema`: what scalars become, as JSON has them by default. */
export function readYaml(text: string, schema?: Schema): Read {
  try {
    return { value: load(text, { maxDepth: YAML_MAX_DEPTH, maxAliases: MAX_ALIASES, ...(schema && { schema }) }) }
  } catch (error) {
    const { reason, mark } = error instanceof YAMLException ? error : { reason: (error as Error).message }
    const cause = reason.slice(0, 200) // some quote their input, however long
    const place = mark === undefined ? '' : `, at line ${mark.line + 1}, column ${mark.column + 1}`
    return { syntax: `not YAML: ${cause}${place}${mark === undefined ? '' : hintFor(text, mark.line)}` }
  }
}

/** `*` alone, or at the start of a text, is an alias to YAML. Patterns in bundles often begin so. */
function hintFor(text: string, line: number): string {
  const isAlias = /(^|[\s,[{])\*/.test(text.split(/\r\n?|\n/, line + 1)[line] ?? '')
  return isAlias ? ' (a text that begins with * needs quotes)' : ''
}
