import { describeIssue, type Problem } from './problem.ts'
import { readJson } from './read-json.ts'
import { readYaml } from './read-yaml.ts'
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
  const invalid = result.success ? [] : result.error.issues.flatMap((issue) => describeIssue(issue, data))
  const problems = [...invalid, ...findContradictions(data), ...unknown.errors]
  if (!result.success || problems.length > 0) return { ok: false, problems, warnings: unknown.warnings }
  return { ok: true, bundle: result.data, warnings: [...unknown.warnings, ...findSurprises(result.data)] }
}

function refuse(message: string): ParsedBundle {
  return { ok: false, problems: [{ path: '', message }], warnings: [] }
}
