import type { z } from 'zod'
import { ruleFieldsSchema } from './schema.ts'
import { closest } from './suggest.ts'

/** Something wrong, or only odd, at one place of a bundle. */
export interface Problem {
  /** Such as `policies[2].spec.rules[0].name`; empty for the bundle as a whole. */
  readonly path: string
  readonly message: string
}

export type Path = readonly PropertyKey[]

export function formatProblem(problem: Problem): string {
  return problem.path === '' ? problem.message : `${problem.path}: ${problem.message}`
}

export function formatPath(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^[A-Za-z_$][\w$]*$/.test(String(step))) text += text === '' ? String(step) : `.${String(step)}`
    else text += `[${JSON.stringify(String(step))}]`
  }
  return text
}

/** The schema's `error` texts say what was expected; this adds where, what was found, and a guess at what was meant. */
export function describeIssue(issue: z.core.$ZodIssue, data: unknown): Problem[] {
  const value = valueAt(data, issue.path)
  const problem = { path: formatPath(issue.path), message: `expected ${issue.message}, ${found(value, issue.message)}` }
  if (issue.code !== 'invalid_union' || issue.discriminator === undefined) return [problem]
  // Without its algorithm a rule is not looked at further; what all rules share is checked here.
  const rulePath = issue.path.slice(0, -1)
  const shared = ruleFieldsSchema.safeParse(valueAt(data, rulePath))
  const others = shared.success ? [] : shared.error.issues
  return [problem, ...others.flatMap((other) => describeIssue({ ...other, path: [...rulePath, ...other.path] }, data))]
}

function valueAt(data: unknown, path: Path): unknown {
  let value = data
  for (const step of path) value = (value as Record<PropertyKey, unknown> | undefined)?.[step]
  return value
}

function found(value: unknown, expected: string): string {
  if (value === undefined) return 'but it is missing'
  const got = `got ${show(value)}`
  if (typeof value !== 'string') return got
  if (expected.includes('number') && value.trim() !== '' && Number.isFinite(Number(value))) return `${got} — remove the quotes?`
  const choices = [...expected.matchAll(/"([^"]+)"/g)].map((match) => match[1]!)
  const suggestion = closest(value, choices)
  return suggestion === undefined ? got : `${got} — did you mean "${suggestion}"?`
}

const SHOWN_CHARACTERS = 60

/** A value as a message quotes it, however long it is. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  if (typeof value !== 'string') return String(value)
  const text = value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value
  return JSON.stringify(text)
}
