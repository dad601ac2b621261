import type { z } from 'zod'
import { KEY_FORMS, meantKey } from './descriptor-key.ts'
import { formatPath, type Path, type Problem, show } from './problem.ts'
import { ruleFieldsSchema } from './schema.ts'
import { closest } from './suggest.ts'

/** The schema's `error` texts say what was expected; this adds the path, what was found, and a suggestion. */
export function describeIssue(issue: z.core.$ZodIssue, data: unknown): Problem[] {
  if (issue.code === 'invalid_key') {
    const expected = issue.issues.map(({ message }) => message).join(', ')
    return [
      { path: formatPath(issue.path.slice(0, -1)), message: `expected each key to be ${expected}, ${found(issue.path.at(-1), expected)}` },
    ]
  }
  const value = valueAt(data, issue.path)
  const problem = { path: formatPath(issue.path), message: `expected ${issue.message}, ${found(value, issue.message)}` }
  if (issue.code !== 'invalid_union') return [problem]
  if (issue.discriminator === undefined) return problemsInside(issue, data) ?? [problem]
  // Without its algorithm, zod does not check a rule further; the fields that all rules share are checked here.
  const rulePath = issue.path.slice(0, -1)
  const shared = ruleFieldsSchema.safeParse(valueAt(data, rulePath))
  const others = shared.success ? [] : shared.error.issues
  return [problem, ...others.flatMap((other) => describeIssue({ ...other, path: [...rulePath, ...other.path] }, data))]
}

/** What is wrong inside the one form of a value that was meant: a number or an object, for example. */
function problemsInside({ errors, path }: z.core.$ZodIssueInvalidUnion, data: unknown): Problem[] | undefined {
  const meant = errors.find((issues) => issues.every((issue) => issue.path.length > 0))
  return meant?.flatMap((issue) => describeIssue({ ...issue, path: [...path, ...issue.path] }, data))
}

function valueAt(data: unknown, path: Path): unknown {
  let value = data
  for (const step of path) value = (value as Record<PropertyKey, unknown> | undefined)?.[step]
  return value
}

function found(value: unknown, expected: string): string {
  if (value === undefined) return 'but it is missing'
  const got = `got ${show(value)}`
  if (typeof value === 'number' || typeof value === 'boolean') return expected.startsWith('a text') ? `${got} — put it in quotes?` : got
  if (typeof value !== 'string') return got
  if (expected.includes('number') && value.trim() !== '' && Number.isFinite(Number(value))) return `${got} — remove the quotes?`
  const choices = [...expected.matchAll(/"([^"]+)"/g)].map((match) => match[1]!)
  const suggestion = expected === KEY_FORMS ? meantKey(value) : closest(value, choices)
  return suggestion === undefined ? got : `${got} — did you mean "${suggestion}"?`
}
