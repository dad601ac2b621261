import { load, YAMLException } from 'js-yaml'
import type { Read } from './read-json.ts'

const MAX_DEPTH = 50
/** Each may stand for a list of others: this bounds what a small file can blow up to. */
const MAX_ALIASES = 1000

/** Reads one YAML document. */
export function readYaml(text: string): Read {
  try {
    return { value: load(text, { maxDepth: MAX_DEPTH, maxAliases: MAX_ALIASES }) }
  } catch (error) {
    const { reason, mark } = error instanceof YAMLException ? error : { reason: (error as Error).message }
    const cause = reason.slice(0, 200) // some quote what they found, however long
    const place = mark === undefined ? '' : `, at line ${mark.line + 1}, column ${mark.column + 1}`
    return { syntax: `not YAML: ${cause}${place}` }
  }
}
