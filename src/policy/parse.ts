import type { BundleFormat } from './bundle-format.ts'
import { formatPath, type Problem } from './problem.ts'
import { readJson } from './read-json.ts'
import { readYaml } from './read-yaml.ts'
import { findContradictions, findSurprises } from './review.ts'
import { type Bundle, envelopeSchema, type Policy, policySchema } from './schema.ts'
import { describeIssue } from './schema-issue.ts'
import { findUnknownFields } from './unknown-fields.ts'

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

// A file can be wrong in a million places, and aliases make a small one stand for a large one. Ten thousand policies of
// two rules have some 300,000 values.
const MAX_PROBLEMS = 1000
const MAX_VALUES = 2_500_000
const MAX_VALUES_IN_POLICY = 100_000

/** Looks at the policies one by one, so that it can stop when it has seen enough. */
function checkBundle(data: unknown): ParsedBundle {
  const envelope = envelopeSchema.safeParse(data)
  const problems: Problem[] = envelope.success ? [] : envelope.error.issues.flatMap((issue) => describeIssue(issue, data))
  const { errors, warnings } = findUnknownFields(envelopeSchema, data, [])
  addFew(problems, errors)
  const policies: Policy[] = []
  let valueCount = 0
  for (const [index, item] of policiesIn(data).entries()) {
    if (problems.length >= MAX_PROBLEMS) break
    const path = ['policies', index]
    const values = countValues(item, MAX_VALUES_IN_POLICY)
    valueCount += values
    if (values > MAX_VALUES_IN_POLICY) return refuse(`expected at most ${MAX_VALUES_IN_POLICY} values in one policy`, formatPath(path))
    if (valueCount > MAX_VALUES) return refuse(`it has more than ${MAX_VALUES} values`)
    const result = policySchema.safeParse(item)
    if (result.success) policies.push(result.data)
    else for (const issue of result.error.issues) addFew(problems, describeIssue({ ...issue, path: [...path, ...issue.path] }, data))
    const unknown = findUnknownFields(policySchema, item, path)
    addFew(problems, unknown.errors)
    addFew(warnings, unknown.warnings)
  }
  addFew(problems, findContradictions(data))
  if (problems.length >= MAX_PROBLEMS) problems.push({ path: '', message: `there may be more; these are the first ${MAX_PROBLEMS}` })
  if (!envelope.success || problems.length > 0) return { ok: false, problems, warnings }
  const bundle = { ...envelope.data, policies }
  addFew(warnings, findSurprises(bundle))
  return { ok: true, bundle, warnings }
}

function addFew(list: Problem[], more: readonly Problem[]): void {
  for (let i = 0; i < more.length && list.length < MAX_PROBLEMS; i++) list.push(more[i]!)
}

function policiesIn(data: unknown): readonly unknown[] {
  const policies = (data as { policies?: unknown } | null | undefined)?.policies
  return Array.isArray(policies) ? policies : []
}

/** Counts what is inside, aliases each time they are used, and stops above `limit`. */
function countValues(root: unknown, limit: number): number {
  const open = [root]
  let count = 0
  while (open.length > 0 && count <= limit) {
    const value = open.pop()
    count++
    if (typeof value !== 'object' || value === null) continue
    const inside: unknown[] = Array.isArray(value) ? value : Object.values(value)
    if (inside.length > limit) return limit + 1
    for (const item of inside) open.push(item)
  }
  return count
}

function refuse(message: string, path = ''): ParsedBundle {
  return { ok: false, problems: [{ path, message }], warnings: [] }
}
