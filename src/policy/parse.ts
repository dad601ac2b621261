import { parseAllDocuments } from 'yaml'
import { describeIssue, type Problem } from './problem.ts'
import { findContradictions, findSurprises } from './review.ts'
import { type Bundle, bundleSchema } from './schema.ts'
import { findUnknownFields } from './unknown-fields.ts'

export type BundleFormat = 'json' | 'yaml'

export type ParsedBundle =
  | { readonly ok: true; readonly bundle: Bundle; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] }

/** Reads a bundle and names everything that is wrong with it. Never throws, whatever the text. */
export function parseBundle(text: string, format: BundleFormat = 'json'): ParsedBundle {
  const source = text.startsWith('\ufeff') ? text.slice(1) : text
  if (source.trim() === '') return refuse('it is empty')
  const data = format === 'json' ? readJson(source) : readYaml(source)
  return 'syntax' in data ? refuse(data.syntax) : checkBundle(data.value)
}

/** YAML by its ending, as the file name says; everything else is JSON. */
export function formatOf(fileName: string): BundleFormat {
  return /\.ya?ml$/i.test(fileName) ? 'yaml' : 'json'
}

function checkBundle(data: unknown): ParsedBundle {
  const unknown = findUnknownFields(data)
  const result = bundleSchema.safeParse(data)
  const invalid = result.success ? findContradictions(result.data) : result.error.issues.map((issue) => describeIssue(issue, data))
  const problems = [...invalid, ...unknown.errors]
  if (!result.success || problems.length > 0) return { ok: false, problems, warnings: unknown.warnings }
  return { ok: true, bundle: result.data, warnings: [...unknown.warnings, ...findSurprises(result.data)] }
}

function refuse(message: string): ParsedBundle {
  return { ok: false, problems: [{ path: '', message }], warnings: [] }
}

type Read = { readonly value: unknown } | { readonly syntax: string }

function readJson(text: string): Read {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    const message = (error as Error).message
    const position = /at position (\d+)/.exec(message)?.[1]
    const offset = position === undefined ? text.length : Number(position)
    return {
      syntax: `not JSON at ${lineAndColumn(text, offset)}: ${message.replace(/ \(line.*| in JSON at position.*| at position.*/, '')}`,
    }
  }
}

function readYaml(text: string): Read {
  try {
    const documents = parseAllDocuments(text)
    if (!Array.isArray(documents) || documents.length !== 1) return { syntax: 'expected one YAML document' }
    const document = documents[0]!
    // The first error is the cause; those after it are its echo.
    const first = document.errors[0]
    return first ? { syntax: `not YAML: ${first.message.split('\n')[0]!.replace(/:$/, '')}` } : { value: document.toJS() }
  } catch (error) {
    // deep nesting overflows the stack, too many aliases are refused
    return { syntax: `not YAML that can be read: ${(error as Error).message}` }
  }
}

function lineAndColumn(text: string, offset: number): string {
  const before = text.slice(0, offset).split('\n')
  return `line ${before.length}, column ${before.at(-1)!.length + 1}`
}
