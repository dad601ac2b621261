import type { z } from 'zod'
import { foundValue } from './found-value.ts'
import { formatPath, type Path, type Problem } from './problem.ts'
import { ruleFieldsSchema } from './schema.ts'

/** The schema's `error` texts say what was expected; this adds the path, what was found, and a suggestion. */
export function describeIssue(issue: z.core.$ZodIssue, data: unknown): Problem[] {
  if (issue.code === 'invalid_key') {
    const expected = issue.issues.map(({ message }) => message).join(', ')
    return [
      {
        path: formatPath(issue.path.slice(0, -1)),
        message: `expected each key to be ${expected}, ${foundValue(issue.path.at(-1), expected)}`,
      },
    ]
  }
  const value = valueAt(data, issue.path)
  const problem = { path: formatPath(issue.path), message: `expected ${issue.message}, ${foundValue(value, issue.message)}` }
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
