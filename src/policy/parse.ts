import { describeIssue, type Problem } from './problem.ts'
import { readJson } from './read-json.ts'
import { readYaml } from './read-yaml.ts'
import { findContradictions, findSurprises } from './review.ts'
import { type Bundle, envelopeSchema, type Policy, policySchema } from './schema.ts'
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

// A file can be wrong in a million places, and aliases make a small one stand for millions of rules.
const MAX_PROBLEMS = 1000
const MAX_RULES = 200_000

/** Looks at the policies one by one, so that it can stop when it has seen enough. */
function checkBundle(data: unknown): ParsedBundle {
  const envelope = envelopeSchema.safeParse(data)
  const problems: Problem[] = envelope.success ? [] : envelope.error.issues.flatMap((issue) => describeIssue(issue, data))
  const unknown = findUnknownFields(envelopeSchema, data, [])
  problems.push(...unknown.errors)
  const warnings = unknown.warnings
  const policies: Policy[] = []
  let ruleCount = 0
  for (const [index, item] of policiesIn(data).entries()) {
    if (problems.length + warnings.length > MAX_PROBLEMS) {
      problems.push({ path: '', message: `there is more; this is where the first ${MAX_PROBLEMS} end` })
      break
    }
    ruleCount += rulesIn(item)
    if (ruleCount > MAX_RULES) return refuse(`it has more than ${MAX_RULES} rules`)
    const path = ['policies', index]
    const result = policySchema.safeParse(item)
    if (result.success) policies.push(result.data)
    else problems.push(...result.error.issues.flatMap((issue) => describeIssue({ ...issue, path: [...path, ...issue.path] }, data)))
    const odd = findUnknownFields(policySchema, item, path)
    problems.push(...odd.errors)
    warnings.push(...odd.warnings)
  }
  problems.push(...findContradictions(data).slice(0, MAX_PROBLEMS))
  if (!envelope.success || problems.length > 0) return { ok: false, problems, warnings }
  const bundle = { ...envelope.data, policies }
  return { ok: true, bundle, warnings: [...warnings, ...findSurprises(bundle)] }
}

function policiesIn(data: unknown): readonly unknown[] {
  const policies = (data as { policies?: unknown } | null | undefined)?.policies
  return Array.isArray(policies) ? policies : []
}

function rulesIn(policy: unknown): number {
  const rules = (policy as { spec?: { rules?: unknown } | null } | null | undefined)?.spec?.rules
  return Array.isArray(rules) ? rules.length : 0
}

function refuse(message: string): ParsedBundle {
  return { ok: false, problems: [{ path: '', message }], warnings: [] }
}
